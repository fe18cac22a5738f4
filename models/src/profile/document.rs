//! Profiles as TOML documents: inheritance, single values by path, listings, the canonical text.

use toml::{Table, Value};

use super::{Constant, ProfileError, Sourced, builtin};

/// How many profiles may stand behind each other by `extends`.
const MAX_DEPTH: usize = 4;

/// Parses `text` and puts it over the profile it extends.
pub(super) fn resolve(text: &str, depth: usize) -> Result<Table, ProfileError> {
    let mut own: Table = text.parse().map_err(|error| syntax("?", &error))?;
    let Some(parent) = own.remove("extends") else {
        return Ok(own);
    };
    let name = name_in(&own);
    let implausible = |found: String, expected: &str| ProfileError::Implausible {
        profile: name.clone(),
        key: "extends".to_owned(),
        found,
        expected: expected.to_owned(),
    };
    let Value::String(parent) = parent else {
        return Err(implausible(parent.to_string(), "the name of a profile"));
    };
    if depth >= MAX_DEPTH {
        return Err(implausible(parent, "no longer chain of profiles"));
    }
    let mut document = resolve(builtin::text(&parent)?, depth + 1)?;
    drop_other_unit(&mut document, &own);
    overlay(&mut document, own);
    Ok(document)
}

/// Removes from `base` the prices that `over` gives in the other unit: a price replaces a price.
fn drop_other_unit(base: &mut Table, over: &Table) {
    let Some(given) = over.get("cost").and_then(Value::as_table) else {
        return;
    };
    let Some(below) = base.get_mut("cost").and_then(Value::as_table_mut) else {
        return;
    };
    for (unit, other) in [("cycles", "ns"), ("ns", "cycles")] {
        let given = given.get(unit).and_then(Value::as_table);
        let below = below.get_mut(other).and_then(Value::as_table_mut);
        if let (Some(given), Some(below)) = (given, below) {
            below.retain(|operation, _| !given.contains_key(operation));
        }
    }
}

/// Puts `over` on top of `base`: tables key by key, everything else (numbers with their sources,
/// too) as a whole.
fn overlay(base: &mut Table, over: Table) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(Value::Table(below)), Value::Table(above)) if !above.contains_key("quality") => {
                overlay(below, above);
            }
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}

/// The value at a path of keys joined by dots.
pub(super) fn find<'a>(document: &'a mut Table, path: &str) -> Option<&'a mut Value> {
    let mut keys = path.split('.');
    let mut place = document.get_mut(keys.next()?)?;
    for key in keys {
        place = place.as_table_mut()?.get_mut(key)?;
    }
    Some(place)
}

pub(super) fn name_in(document: &Table) -> String {
    let name = document.get("name").and_then(Value::as_str);
    name.unwrap_or("?").to_owned()
}

/// The error of the TOML reader in one line, without its picture of the text.
pub(super) fn syntax(profile: &str, error: &toml::de::Error) -> ProfileError {
    let text = error.to_string();
    let picture =
        |line: &&str| line.contains(" | ") || line.ends_with('|') || line.starts_with('|');
    let lines = text.lines().map(str::trim);
    let (places, said): (Vec<&str>, Vec<&str>) = lines
        .filter(|line| !line.is_empty() && !picture(line))
        .partition(|line| line.starts_with("in `"));
    let place = places
        .first()
        .map(|it| it.trim_start_matches("in ").trim_matches('`'));
    let message = said.join(", ").replace(
        "struct Sourced",
        "{ value = .., source = \"..\", quality = \"..\" }",
    );
    ProfileError::Syntax {
        profile: profile.to_owned(),
        key: place.map(|place| join(place, &unknown_word(&message).unwrap_or_default())),
        message,
    }
}

/// The word that a message calls an unknown field or variant: it belongs to the path.
fn unknown_word(message: &str) -> Option<String> {
    let rest = message.strip_prefix("unknown field `");
    let rest = rest.or_else(|| message.strip_prefix("unknown variant `"))?;
    Some(rest.split('`').next()?.to_owned())
}

/// A value as it stands on a command line: TOML if it is, else a plain word.
pub(super) fn parse_value(text: &str) -> Value {
    let document: Result<Table, _> = format!("value = {text}").parse();
    let value = document.ok().and_then(|mut table| table.remove("value"));
    value.unwrap_or_else(|| Value::String(text.to_owned()))
}

/// Lets an integer stand for a float where the value replaced is one.
pub(super) fn fit_type(value: Value, old: Option<&Value>) -> Value {
    match (value, old) {
        #[expect(clippy::cast_precision_loss, reason = "numbers typed by hand")]
        (Value::Integer(n), Some(Value::Float(_))) => Value::Float(n as f64),
        (value, _) => value,
    }
}

/// Every number of a document that has a source, in the order of its path.
pub(super) fn constants(document: &Table) -> Vec<Constant> {
    let mut found = Vec::new();
    collect(document, "", &mut found);
    found
}

fn collect(table: &Table, path: &str, found: &mut Vec<Constant>) {
    for (key, value) in table {
        let Value::Table(inner) = value else { continue };
        let key = join(path, key);
        match Value::Table(inner.clone()).try_into::<Sourced<Value>>() {
            Ok(number) => found.push(Constant {
                key,
                value: number.value.to_string(),
                source: number.source,
                quality: number.quality,
            }),
            Err(_) => collect(inner, &key, found),
        }
    }
}

/// Every value of a document that is no number with a source, in the order of its path, but for
/// the names that the profile goes by.
pub(super) fn settings(document: &Table) -> Vec<(String, String)> {
    let mut found = Vec::new();
    collect_settings(document, "", &mut found);
    found.retain(|(key, _)| !matches!(key.as_str(), "name" | "about" | "arch"));
    found
}

fn collect_settings(table: &Table, path: &str, found: &mut Vec<(String, String)>) {
    for (key, value) in table {
        let key = join(path, key);
        match value {
            Value::Table(inner) if inner.contains_key("quality") => {}
            Value::Table(inner) => collect_settings(inner, &key, found),
            Value::String(text) => found.push((key, text.clone())),
            other => found.push((key, other.to_string())),
        }
    }
}

/// Paths and values, one a line, sorted; without sources, qualities and descriptions.
pub(super) fn canonical(document: &Table) -> String {
    let mut text = String::new();
    write_canonical(document, "", &mut text);
    text
}

fn write_canonical(table: &Table, path: &str, text: &mut String) {
    for (key, value) in table {
        let path = join(path, key);
        match value {
            Value::Table(inner) => write_canonical(inner, &path, text),
            _ if matches!(key.as_str(), "source" | "quality" | "about") => {}
            other => {
                text.push_str(&path);
                text.push('=');
                text.push_str(&other.to_string());
                text.push('\n');
            }
        }
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() || key.is_empty() {
        format!("{path}{key}")
    } else {
        format!("{path}.{key}")
    }
}
