//! Decompression that looks at the data, not at the file name.

use std::io::{self, BufRead, BufReader, Read};

/// The first bytes of a zstd frame (RFC 8878, section 3.1.1).
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// A stream that may have been compressed.
pub enum Decompressed<R: BufRead> {
    /// As it came.
    Plain(R),
    /// Through a zstd decoder.
    Zstd(Box<BufReader<zstd::Decoder<'static, R>>>),
}

impl<R: BufRead> std::fmt::Debug for Decompressed<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Plain(_) => "Decompressed::Plain",
            Self::Zstd(_) => "Decompressed::Zstd",
        })
    }
}

impl<R: BufRead> Decompressed<R> {
    /// Looks at the first bytes of `input` and sets up the decoder that they call for.
    ///
    /// # Errors
    /// A failing read, or a decoder that cannot be set up.
    pub fn detect(mut input: R) -> io::Result<Self> {
        if input.fill_buf()?.starts_with(&ZSTD_MAGIC) {
            let decoder = zstd::Decoder::with_buffer(input)?;
            Ok(Self::Zstd(Box::new(BufReader::new(decoder))))
        } else {
            Ok(Self::Plain(input))
        }
    }
}

impl<R: BufRead> Read for Decompressed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(input) => input.read(buffer),
            Self::Zstd(input) => input.read(buffer),
        }
    }
}

impl<R: BufRead> BufRead for Decompressed<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        match self {
            Self::Plain(input) => input.fill_buf(),
            Self::Zstd(input) => input.fill_buf(),
        }
    }

    fn consume(&mut self, amount: usize) {
        match self {
            Self::Plain(input) => input.consume(amount),
            Self::Zstd(input) => input.consume(amount),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        Decompressed::detect(bytes)
            .unwrap()
            .read_to_end(&mut out)
            .unwrap();
        out
    }

    #[test]
    fn plain_and_compressed_give_the_same_bytes() {
        let text = b"MMTRC001 and so on".repeat(1000);
        let packed = zstd::encode_all(&text[..], 1).unwrap();
        assert!(packed.len() < text.len());
        assert_eq!(read_all(&text), text);
        assert_eq!(read_all(&packed), text);
        assert_eq!(read_all(b""), b"");
    }
}
