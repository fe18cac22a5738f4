//! The 256-byte header: a magic word and a line of text about the run.

use crate::error::ReadError;

/// The first bytes of every recording.
pub(super) const MAGIC: [u8; 8] = *b"MMTRC001";
/// Bytes before the first record.
pub(super) const LENGTH: usize = 256;

/// The instruction set of the recorded kernel.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Isa {
    /// AArch64; the header says `arm64`.
    Aarch64,
    /// x86-64.
    X86_64,
}

/// What a recording says about itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// The instruction set of the recorded kernel.
    pub isa: Isa,
    /// The header's text as it stands there.
    pub text: String,
}

impl Header {
    /// Decodes the header's bytes after the magic word: text, padded with zeros.
    pub(super) fn parse(padded: &[u8]) -> Result<Self, ReadError> {
        let end = padded
            .iter()
            .position(|&byte| byte == 0)
            .unwrap_or(padded.len());
        let text = String::from_utf8_lossy(&padded[..end]).into_owned();
        let problem = match find(&text, "arch") {
            Some("arm64") => {
                let isa = Isa::Aarch64;
                return Ok(Self { isa, text });
            }
            Some("x86_64") => {
                let isa = Isa::X86_64;
                return Ok(Self { isa, text });
            }
            Some(_) => "unknown arch",
            None => "no arch=",
        };
        Err(ReadError::BadHeader { problem, text })
    }

    /// The value of the first `key=value` word of the text: `thp`, `threads`, `pages`, `size`
    /// and so on, as far as the recorded case has them.
    #[must_use]
    pub fn parameter(&self, key: &str) -> Option<&str> {
        find(&self.text, key)
    }

    /// The recorded case, without its parameters: the word after `trace`.
    #[must_use]
    pub fn case(&self) -> Option<&str> {
        let mut words = self.text.split_whitespace();
        words.find(|&word| word == "trace")?;
        words.next()
    }
}

fn find<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.split_whitespace().find_map(|word| {
        let (name, value) = word.split_once('=')?;
        (name == key).then_some(value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_taken_apart() {
        let header =
            Header::parse(b"arch=arm64 trace mprotect pages=16 thp=64K rep=0\0\0garbage").unwrap();
        assert_eq!(header.isa, Isa::Aarch64);
        assert_eq!(header.case(), Some("mprotect"));
        assert_eq!(header.parameter("thp"), Some("64K"));
        assert_eq!(header.parameter("th"), None);
    }

    #[test]
    fn an_architecture_is_required_and_must_be_known() {
        let message = |text: &[u8]| Header::parse(text).unwrap_err().to_string();
        assert_eq!(
            message(b"arch=sparc64 trace x"),
            "unknown arch in the header text \"arch=sparc64 trace x\""
        );
        assert_eq!(message(b"\0\0"), "no arch= in the header text \"\"");
        assert_eq!(
            message(b"\xff\xfe"),
            "no arch= in the header text \"\u{fffd}\u{fffd}\""
        );
    }
}
