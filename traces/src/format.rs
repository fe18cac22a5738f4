//! The one trait that every trace format implements.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use crate::compression::Decompressed;
use crate::error::ReadError;

/// A trace format: how to know it, and how to read it record by record.
pub trait Format {
    /// What messages call it.
    const NAME: &'static str;

    /// One record.
    type Record;

    /// The reader; what a file says about itself before the records is the reader's to offer.
    type Reader<R: BufRead>: Iterator<Item = Result<Self::Record, ReadError>>;

    /// Whether a decompressed file that begins with `start` (at least 8 bytes, unless the file
    /// is shorter) is of this format.
    fn recognises(start: &[u8]) -> bool;

    /// Reads the header and stands before the first record.
    ///
    /// # Errors
    /// Whatever is wrong with the header.
    fn reader<R: BufRead>(input: R) -> Result<Self::Reader<R>, ReadError>;
}

/// Reads `input` as format `F`, decompressing it if it is compressed.
///
/// # Errors
/// Whatever is wrong with the stream's first bytes or its header.
pub fn read<F: Format, R: BufRead>(input: R) -> Result<F::Reader<Decompressed<R>>, ReadError> {
    let input = Decompressed::detect(input).map_err(|source| ReadError::Io { at: 0, source })?;
    F::reader(input)
}

/// Opens the file at `path` as format `F`, decompressing it if it is compressed.
///
/// # Errors
/// A file that cannot be opened, or whatever is wrong with its header.
pub fn open<F: Format>(path: &Path) -> Result<F::Reader<Decompressed<BufReader<File>>>, ReadError> {
    let file = File::open(path).map_err(|source| ReadError::Io { at: 0, source })?;
    read::<F, _>(BufReader::new(file))
}
