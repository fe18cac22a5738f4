//! Named bit fields with their meaning.

use serde::Serialize;

/// A field of a register, an operand or a table entry.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Field {
    /// The architecture's name for it.
    pub name: &'static str,
    /// Its topmost bit.
    pub high: u32,
    /// Its lowest bit.
    pub low: u32,
    /// Its value, shifted down.
    pub value: u64,
    /// What this value means.
    pub meaning: String,
}

impl Field {
    /// The field in bits `high` to `low` of `raw`, with a meaning that is made from its value.
    pub(super) fn of<T: Into<String>>(
        raw: u64,
        name: &'static str,
        high: u32,
        low: u32,
        meaning: impl FnOnce(u64) -> T,
    ) -> Self {
        let value = extract(raw, high, low);
        Self {
            name,
            high,
            low,
            value,
            meaning: meaning(value).into(),
        }
    }

    /// The one-bit field at `bit` of `raw`, and what it means clear and set.
    pub(super) fn flag(raw: u64, name: &'static str, bit: u32, clear: &str, set: &str) -> Self {
        Self::of(raw, name, bit, bit, |it| if it == 0 { clear } else { set })
    }

    /// Its bits as `47:44`, or `6` for a single one.
    #[must_use]
    pub fn bits(&self) -> String {
        if self.high == self.low {
            self.high.to_string()
        } else {
            format!("{}:{}", self.high, self.low)
        }
    }
}

/// Bits `high` to `low` of `raw`, shifted down.
pub(super) const fn extract(raw: u64, high: u32, low: u32) -> u64 {
    raw << (63 - high) >> (63 - high) >> low
}

/// A value taken apart.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Explanation {
    /// The value.
    pub raw: u64,
    /// What it says as a whole, in a line.
    pub summary: String,
    /// Its fields, topmost first.
    pub fields: Vec<Field>,
}
