//! The streaming reader.

use std::io::{BufRead, ErrorKind};

use super::Recording;
use super::header::{self, Header};
use super::record::{self, Raw, Record};
use crate::error::ReadError;
use crate::format::Format;

/// Reads a recording record by record. After an error the iterator ends: without the record's
/// length the next one cannot be found.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    header: Header,
    at: u64,
    failed: bool,
}

impl<R: BufRead> Reader<R> {
    pub(super) fn new(mut input: R) -> Result<Self, ReadError> {
        let mut bytes = [0; header::LENGTH];
        let got = fill(&mut input, &mut bytes, 0)?;
        if !Recording::recognises(&bytes[..got]) {
            return Err(ReadError::WrongMagic {
                format: Recording::NAME,
                found: bytes[..got.min(header::MAGIC.len())].to_vec(),
            });
        }
        if got < header::LENGTH {
            return Err(ReadError::Truncated {
                what: "header",
                at: 0,
                got,
                wanted: header::LENGTH,
            });
        }
        Ok(Self {
            input,
            header: Header::parse(&bytes[header::MAGIC.len()..])?,
            at: header::LENGTH as u64,
            failed: false,
        })
    }

    /// What the recording says about itself.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Where the next record begins, in bytes of the decompressed stream.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.at
    }

    fn record(&mut self) -> Result<Option<Record>, ReadError> {
        let start = self.at;
        let mut bytes = [0; record::LENGTH];
        match fill(&mut self.input, &mut bytes, start)? {
            0 => return Ok(None),
            record::LENGTH => self.at += record::LENGTH as u64,
            got => {
                return Err(ReadError::Truncated {
                    what: "record",
                    at: start,
                    got,
                    wanted: record::LENGTH,
                });
            }
        }
        let raw = Raw::split(start, &bytes);
        if raw.kind != record::TABLE {
            return raw.decode(self.header.isa).map(Some);
        }
        raw.check_table()?;
        let words = self.table_words(start)?;
        raw.table(words).map(Some)
    }

    fn table_words(&mut self, start: u64) -> Result<[u64; record::TABLE_WORDS], ReadError> {
        let mut bytes = [0; record::TABLE_WORDS * 8];
        let got = fill(&mut self.input, &mut bytes, self.at)?;
        if got < bytes.len() {
            return Err(ReadError::Truncated {
                what: "table record",
                at: start,
                got: record::LENGTH + got,
                wanted: record::LENGTH + bytes.len(),
            });
        }
        self.at += got as u64;
        let mut words = [0; record::TABLE_WORDS];
        for (word, chunk) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*chunk);
        }
        Ok(words)
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Record, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let next = self.record().transpose();
        self.failed = matches!(next, Some(Err(_)));
        next
    }
}

/// Fills `buffer` as far as the input goes, and says how far that was. `at` is the stream
/// position, for the error.
fn fill(input: &mut impl BufRead, buffer: &mut [u8], at: u64) -> Result<usize, ReadError> {
    let mut got = 0;
    while got < buffer.len() {
        match input.read(&mut buffer[got..]) {
            Ok(0) => break,
            Ok(count) => got += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(source) => {
                return Err(ReadError::Io {
                    at: at + got as u64,
                    source,
                });
            }
        }
    }
    Ok(got)
}
