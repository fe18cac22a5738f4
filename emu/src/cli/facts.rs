//! Explanations as text or JSON: a line that says it all, then a line a field.

use std::fmt::Write as _;

use mmuscope_models::explain::{Explanation, Field};
use serde::Serialize;

use super::output;

/// Fields, one a line, indented by `indent`.
pub fn fields(text: &mut String, fields: &[Field], indent: usize) {
    let width = |of: &dyn Fn(&Field) -> usize| fields.iter().map(of).max().unwrap_or(0);
    let names = width(&|it| it.name.len());
    let bits = width(&|it| it.bits().len());
    let values = width(&|it| format!("{:#x}", it.value).len());
    for it in fields {
        let (place, value) = (it.bits(), format!("{:#x}", it.value));
        let _ = writeln!(
            text,
            "{:indent$}{:<names$}  {place:>bits$}  {value:>values$}  {}",
            "", it.name, it.meaning
        );
    }
}

/// An explanation of the value `raw`, printed with `digits` hexadecimal digits.
pub fn explanation(it: &Explanation, digits: usize) -> String {
    let width = digits + 2;
    let mut text = format!("{:#0width$x}  {}\n", it.raw, it.summary);
    fields(&mut text, &it.fields, 2);
    text
}

/// Prints `value` as indented JSON.
pub fn json<T: Serialize>(value: &T) -> anyhow::Result<()> {
    let mut text = serde_json::to_string_pretty(value)?;
    text.push('\n');
    output::print(text.as_bytes())
}

/// A number as people write it: `0x` hexadecimal, else decimal; `_` between digits is ignored.
pub fn number(text: &str) -> Result<u64, String> {
    let plain = text.replace('_', "");
    let parsed = match plain
        .strip_prefix("0x")
        .or_else(|| plain.strip_prefix("0X"))
    {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => plain.parse(),
    };
    parsed.map_err(|_| "expected a 64-bit number such as 0x9600004f or 4096".to_owned())
}

/// The same, of at most 32 bits.
pub fn number32(text: &str) -> Result<u32, String> {
    let wide = number(text)?;
    u32::try_from(wide).map_err(|_| "expected at most 32 bits, such as 0xd5088720".to_owned())
}

/// A size: a number with or without K, M, G or T, powers of 1024.
pub fn size(text: &str) -> Result<u64, String> {
    let problem = || "expected a size such as 4096, 0x1000, 64K or 2M".to_owned();
    let (digits, shift) = match text.char_indices().next_back() {
        Some((at, 'K' | 'k')) => (&text[..at], 10),
        Some((at, 'M' | 'm')) => (&text[..at], 20),
        Some((at, 'G' | 'g')) => (&text[..at], 30),
        Some((at, 'T' | 't')) => (&text[..at], 40),
        _ => (text, 0),
    };
    let value = number(digits).map_err(|_| problem())?;
    value.checked_mul(1 << shift).ok_or_else(problem)
}
