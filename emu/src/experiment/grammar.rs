//! The words of an experiment: `key=value[,value..]`.
//!
//! An axis is named once, with one value or a list; lists are crossed. What an axis accepts
//! (choices, a count, a size that is a multiple of a unit) comes from its [`Axis`]
//! description, and every refusal names the word, what was found, what is expected, and the fix
//! where one is likely.
//!
//! ```
//! use mmuscope_emu::experiment::grammar::{cross, parse_words};
//! use mmuscope_guest::{Axis, AxisKind};
//!
//! const AXES: &[Axis] = &[
//!     Axis {
//!         key: "level",
//!         about: "table level that is moved",
//!         kind: AxisKind::Choice(&[("pte", "one entry at a time"), ("pmd", "whole tables")]),
//!         default: "pte",
//!         arch: None,
//!     },
//!     Axis {
//!         key: "size",
//!         about: "bytes moved",
//!         kind: AxisKind::Size { min: 4096, max: 1 << 34, unit: 4096 },
//!         default: "1G",
//!         arch: None,
//!     },
//! ];
//! let axes: Vec<&Axis> = AXES.iter().collect();
//! let settings = parse_words(&axes, &["level=pte,pmd", "size=2M"]).unwrap();
//! let points = cross(&settings);
//! assert_eq!(points.len(), 2);
//! assert_eq!(points[1].to_string(), "level=pmd size=2M");
//! assert_eq!(points[1].params()[1], ("size".to_owned(), "2097152".to_owned()));
//! ```

use std::fmt;

use mmuscope_guest::{Axis, AxisKind};
use thiserror::Error;

/// Why a word was refused. Each prints as one line.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum GrammarError {
    /// The word has no `=`.
    #[error("`{word}` is not a setting: expected key=value[,value..], such as {example}")]
    NotASetting {
        /// The word as given.
        word: String,
        /// A setting that would be accepted.
        example: String,
    },
    /// No axis has this key.
    #[error("unknown axis `{key}`: expected {}{}", list(.expected), hint(.suggestion.as_deref()))]
    UnknownAxis {
        /// The key as given.
        key: String,
        /// The keys there are.
        expected: Vec<String>,
        /// The key that was probably meant.
        suggestion: Option<String>,
    },
    /// The axis is a choice, and this is none of its values.
    #[error(
        "axis `{key}`: unknown value `{value}`: expected {}{}",
        list(.expected), hint(.suggestion.as_deref())
    )]
    UnknownValue {
        /// The axis.
        key: String,
        /// The value as given.
        value: String,
        /// The values there are.
        expected: Vec<String>,
        /// The value that was probably meant.
        suggestion: Option<String>,
    },
    /// Nothing stands before, after or between the commas.
    #[error("axis `{key}`: a value is empty: expected {key}=value[,value..]")]
    EmptyValue {
        /// The axis.
        key: String,
    },
    /// A key stands in two words.
    #[error("axis `{key}` is given twice: write its values as one list, {key}=a,b")]
    AxisTwice {
        /// The axis.
        key: String,
    },
    /// A value stands twice in a list.
    #[error("axis `{key}`: value `{value}` is given twice")]
    ValueTwice {
        /// The axis.
        key: String,
        /// The value.
        value: String,
    },
    /// A list where one value is wanted.
    #[error("axis `{key}`: one value is expected here, not a list")]
    ListNotAllowed {
        /// The axis.
        key: String,
    },
    /// Not a size.
    #[error(
        "axis `{key}`: `{value}` is not a size: expected a whole number with or without K, M, G \
         or T, from {min} to {max}{}",
        hint(.suggestion.as_deref())
    )]
    BadSize {
        /// The axis.
        key: String,
        /// The value as given.
        value: String,
        /// The least size accepted.
        min: String,
        /// The greatest size accepted.
        max: String,
        /// The same size written as this grammar has it, if it is in range.
        suggestion: Option<String>,
    },
    /// Not a count.
    #[error("axis `{key}`: `{value}` is not a count: expected a whole number")]
    BadCount {
        /// The axis.
        key: String,
        /// The value as given.
        value: String,
    },
    /// A size that is not a multiple of the axis's unit.
    #[error("axis `{key}`: {value} is no multiple of {unit}{}", hint(.suggestion.as_deref()))]
    NotAMultiple {
        /// The axis.
        key: String,
        /// The value as given.
        value: String,
        /// The least size.
        unit: String,
        /// The next multiple, if it is in range.
        suggestion: Option<String>,
    },
    /// A size or count outside what the axis accepts.
    #[error("axis `{key}`: {value} is out of range: expected {min} to {max}")]
    OutOfRange {
        /// The axis.
        key: String,
        /// The value as given.
        value: String,
        /// The least value accepted.
        min: String,
        /// The greatest value accepted.
        max: String,
    },
}

pub(super) fn list(expected: &[String]) -> String {
    match expected {
        [] => "nothing".to_owned(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

pub(super) fn hint(suggestion: Option<&str>) -> String {
    suggestion.map_or_else(String::new, |it| format!("; did you mean `{it}`?"))
}

/// The candidate that `word` is most likely a slip of, if any is close: one typing slip (two from
/// six letters on), or much the same beginning.
#[must_use]
pub fn suggest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    let slips_allowed = if word.chars().count() < 6 { 1 } else { 2 };
    candidates
        .into_iter()
        .map(|it| {
            let candidate = it.to_lowercase();
            let slips = strsim::osa_distance(&word, &candidate);
            (slips, strsim::jaro_winkler(&word, &candidate), it)
        })
        .filter(|&(slips, likeness, _)| slips <= slips_allowed || likeness >= 0.85)
        .min_by(|a, b| a.0.cmp(&b.0).then(b.1.total_cmp(&a.1)))
        .map(|(.., it)| it)
}

/// One value of an axis.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Value {
    text: String,
    param: String,
}

impl Value {
    /// The value as reports print it; sizes in the largest whole unit.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The value as a guest is given it; sizes in bytes, as decimal text.
    #[must_use]
    pub fn param(&self) -> &str {
        &self.param
    }
}

/// An axis with the values that an experiment runs it at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setting {
    /// The axis's key.
    pub key: String,
    /// At least one value, in the order given.
    pub values: Vec<Value>,
}

/// One value for every axis: what one run is given.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Point {
    values: Vec<(String, Value)>,
}

impl Point {
    /// The value of the axis `key`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.values.iter().find(|it| it.0 == key).map(|it| &it.1)
    }

    /// The axes with their values, in the order of the settings.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.values.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// The parameters for the guest.
    #[must_use]
    pub fn params(&self) -> Vec<(String, String)> {
        self.iter()
            .map(|(key, value)| (key.to_owned(), value.param.clone()))
            .collect()
    }

    /// Takes out the axes that `keep` does not want.
    pub fn retain(&mut self, mut keep: impl FnMut(&str, &Value) -> bool) {
        self.values.retain(|(key, value)| keep(key, value));
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (key, value)) in self.iter().enumerate() {
            let gap = if at == 0 { "" } else { " " };
            write!(f, "{gap}{key}={}", value.text)?;
        }
        Ok(())
    }
}

/// Reads the words of an experiment over `axes`.
///
/// Every axis gets a setting: first those that are named, in the order named, so that the first
/// word varies slowest; then the others, at their defaults, in the order of `axes`.
///
/// # Errors
/// The first word that is not a setting of one of the axes.
pub fn parse_words(
    axes: &[&Axis],
    words: &[impl AsRef<str>],
) -> Result<Vec<Setting>, GrammarError> {
    settings(axes, words, |word| parse_word(axes, word))
}

/// As [`parse_words`], but a key that no axis has is an axis of its own with any values: what a
/// guest program takes is known to the program only. Values that are sizes are passed in bytes.
///
/// # Errors
/// The first word that is not a setting, or not one that its axis accepts.
pub fn parse_open(axes: &[&Axis], words: &[impl AsRef<str>]) -> Result<Vec<Setting>, GrammarError> {
    settings(axes, words, |word| match parse_word(axes, word) {
        Err(GrammarError::UnknownAxis { key, .. }) => free_word(&key, word),
        known => known,
    })
}

fn settings(
    axes: &[&Axis],
    words: &[impl AsRef<str>],
    parse: impl Fn(&str) -> Result<Setting, GrammarError>,
) -> Result<Vec<Setting>, GrammarError> {
    let mut settings: Vec<Setting> = Vec::new();
    for word in words {
        let setting = parse(word.as_ref())?;
        if settings.iter().any(|it| it.key == setting.key) {
            return Err(GrammarError::AxisTwice { key: setting.key });
        }
        settings.push(setting);
    }
    for axis in axes {
        if !settings.iter().any(|it| it.key == axis.key) {
            settings.push(Setting {
                key: axis.key.to_owned(),
                values: vec![parse_value(axis, axis.default)?],
            });
        }
    }
    Ok(settings)
}

/// Reads a word that may give one value only, such as a baseline.
///
/// # Errors
/// The word is not a setting of one of the axes, or gives a list.
pub fn parse_single(axes: &[&Axis], word: &str) -> Result<(String, Value), GrammarError> {
    let setting = parse_word(axes, word)?;
    match <[Value; 1]>::try_from(setting.values) {
        Ok([value]) => Ok((setting.key, value)),
        Err(_) => Err(GrammarError::ListNotAllowed { key: setting.key }),
    }
}

fn parse_word(axes: &[&Axis], word: &str) -> Result<Setting, GrammarError> {
    let Some((key, values)) = word.split_once('=') else {
        return Err(GrammarError::NotASetting {
            word: word.to_owned(),
            example: axes.first().map_or_else(
                || "cpus=4".to_owned(),
                |it| format!("{}={}", it.key, it.default),
            ),
        });
    };
    let Some(axis) = axes.iter().find(|it| it.key == key) else {
        return Err(GrammarError::UnknownAxis {
            key: key.to_owned(),
            expected: axes.iter().map(|it| it.key.to_owned()).collect(),
            suggestion: suggest(key, axes.iter().map(|it| it.key)).map(str::to_owned),
        });
    };
    values_of(key, values, |value| parse_value(axis, value))
}

/// A setting of a key that only the guest knows.
fn free_word(key: &str, word: &str) -> Result<Setting, GrammarError> {
    let values = word.strip_prefix(key).and_then(|it| it.strip_prefix('='));
    values_of(key, values.unwrap_or_default(), |value| {
        if key.is_empty() || value.is_empty() {
            return Err(GrammarError::EmptyValue {
                key: key.to_owned(),
            });
        }
        Ok(Value {
            text: value.to_owned(),
            param: parse_size(value).map_or_else(|| value.to_owned(), |it| it.to_string()),
        })
    })
}

fn values_of(
    key: &str,
    values: &str,
    parse: impl Fn(&str) -> Result<Value, GrammarError>,
) -> Result<Setting, GrammarError> {
    let mut parsed: Vec<Value> = Vec::new();
    for value in values.split(',') {
        let value = parse(value)?;
        if parsed.contains(&value) {
            return Err(GrammarError::ValueTwice {
                key: key.to_owned(),
                value: value.text,
            });
        }
        parsed.push(value);
    }
    Ok(Setting {
        key: key.to_owned(),
        values: parsed,
    })
}

fn parse_value(axis: &Axis, value: &str) -> Result<Value, GrammarError> {
    let key = || axis.key.to_owned();
    if value.is_empty() {
        return Err(GrammarError::EmptyValue { key: key() });
    }
    match axis.kind {
        AxisKind::Choice(choices) => {
            if choices.iter().any(|&(it, _)| it == value) {
                return Ok(Value {
                    text: value.to_owned(),
                    param: value.to_owned(),
                });
            }
            Err(GrammarError::UnknownValue {
                key: key(),
                value: value.to_owned(),
                expected: choices.iter().map(|&(it, _)| it.to_owned()).collect(),
                suggestion: suggest(value, choices.iter().map(|&(it, _)| it)).map(str::to_owned),
            })
        }
        AxisKind::Size { min, max, unit } => {
            let bytes = parse_size(value).ok_or_else(|| GrammarError::BadSize {
                key: key(),
                value: value.to_owned(),
                min: size_text(min),
                max: size_text(max),
                suggestion: whole_size(value)
                    .filter(|it| (min..=max).contains(it))
                    .map(size_text),
            })?;
            let size = in_range(axis, value, bytes, min, max, size_text)?;
            let whole = bytes.next_multiple_of(unit.max(1));
            if whole == bytes {
                return Ok(size);
            }
            Err(GrammarError::NotAMultiple {
                key: key(),
                value: value.to_owned(),
                unit: size_text(unit),
                suggestion: (whole <= max).then(|| size_text(whole)),
            })
        }
        AxisKind::Count { min, max } => {
            let count = parse_digits(value).ok_or_else(|| GrammarError::BadCount {
                key: key(),
                value: value.to_owned(),
            })?;
            in_range(axis, value, count, min, max, |it| it.to_string())
        }
    }
}

fn in_range(
    axis: &Axis,
    given: &str,
    number: u64,
    min: u64,
    max: u64,
    text: impl Fn(u64) -> String,
) -> Result<Value, GrammarError> {
    if (min..=max).contains(&number) {
        return Ok(Value {
            text: text(number),
            param: number.to_string(),
        });
    }
    Err(GrammarError::OutOfRange {
        key: axis.key.to_owned(),
        value: given.to_owned(),
        min: text(min),
        max: text(max),
    })
}

const UNITS: [(char, u32); 4] = [('K', 10), ('M', 20), ('G', 30), ('T', 40)];

fn unit_shift(unit: char) -> Option<u32> {
    let unit = unit.to_ascii_uppercase();
    UNITS.iter().find(|it| it.0 == unit).map(|it| it.1)
}

/// Digits only: no sign, no space, no separator.
fn parse_digits(text: &str) -> Option<u64> {
    let plain = !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

/// Bytes of a size such as `4096`, `64K`, `2M` or `1G`; units are powers of 1024.
#[must_use]
pub fn parse_size(text: &str) -> Option<u64> {
    let Some(shift) = text.chars().last().and_then(unit_shift) else {
        return parse_digits(text);
    };
    // A unit is one ASCII byte.
    parse_digits(&text[..text.len() - 1])?.checked_mul(1 << shift)
}

/// The bytes of a size that has a decimal fraction, if they are whole: `1.5K` is 1536.
fn whole_size(text: &str) -> Option<u64> {
    let shift = text.chars().last().and_then(unit_shift)?;
    let (whole, fraction) = text[..text.len() - 1].split_once('.')?;
    let digits = u32::try_from(fraction.len()).ok().filter(|&it| it <= 9)?;
    let scale = 10_u64.pow(digits);
    let scaled = parse_digits(whole)?
        .checked_mul(scale)?
        .checked_add(parse_digits(fraction)?)?
        .checked_mul(1 << shift)?;
    scaled.is_multiple_of(scale).then(|| scaled / scale)
}

/// A size in the largest unit that divides it: `1G`, `1536`, `6K`.
#[must_use]
pub fn size_text(bytes: u64) -> String {
    let fits = |shift: u32| bytes != 0 && bytes.trailing_zeros() >= shift;
    match UNITS.iter().rev().find(|it| fits(it.1)) {
        Some((unit, shift)) => format!("{}{unit}", bytes >> shift),
        None => bytes.to_string(),
    }
}

/// Every combination of the settings' values; the last setting varies fastest.
#[must_use]
pub fn cross(settings: &[Setting]) -> Vec<Point> {
    let mut points = vec![Point::default()];
    for setting in settings {
        points = points
            .iter()
            .flat_map(|point| {
                setting.values.iter().map(|value| {
                    let mut point = point.clone();
                    point.values.push((setting.key.clone(), value.clone()));
                    point
                })
            })
            .collect();
    }
    points
}

#[cfg(test)]
mod tests;
