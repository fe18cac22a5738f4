//! What can be wrong with a trace, and where.

use std::io;

/// A trace that cannot be read (further).
///
/// Offsets count bytes from the start of the *decompressed* stream: that is where a hex dump
/// shows the record.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The operating system or the decompressor failed.
    #[error("reading failed after byte {at}: {source}")]
    Io {
        /// Bytes read before the failure.
        at: u64,
        /// The failure.
        source: io::Error,
    },
    /// The file is not of the format it was opened as.
    #[error("not a {format} file: it begins with {}", printable(found))]
    WrongMagic {
        /// The format asked for.
        format: &'static str,
        /// The first bytes.
        found: Vec<u8>,
    },
    /// The stream ends inside a structure.
    #[error("truncated {what} at byte {at}: {got} of {wanted} bytes")]
    Truncated {
        /// The structure.
        what: &'static str,
        /// Where it begins.
        at: u64,
        /// How many bytes of it are there.
        got: usize,
        /// How many it has.
        wanted: usize,
    },
    /// A record of a type that the format does not have.
    #[error("unknown record type {kind} at byte {at}")]
    UnknownType {
        /// Where the record begins.
        at: u64,
        /// Its type.
        kind: u8,
    },
    /// A field with a value that the format does not allow.
    #[error("{what} {value:#x} is not allowed in the record at byte {at}")]
    BadField {
        /// Where the record begins.
        at: u64,
        /// The field.
        what: &'static str,
        /// Its value.
        value: u64,
    },
    /// A header whose text cannot be understood.
    #[error("{problem} in the header text {text:?}")]
    BadHeader {
        /// What is wrong.
        problem: &'static str,
        /// The text.
        text: String,
    },
}

fn printable(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "nothing (it is empty)".to_owned();
    }
    format!("\"{}\"", bytes.escape_ascii())
}
