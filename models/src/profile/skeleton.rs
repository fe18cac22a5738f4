//! The text of a new profile: valid as it stands, and a list of what can be changed.

use std::fmt::Write as _;

use toml::{Table, Value};

use crate::cost::Operation;

/// What stands in a table, by the beginning of its path; the longest beginning counts.
const TABLES: &[(&str, &str)] = &[
    ("clock", "Frequency of every core."),
    (
        "topology",
        "CPUs (hardware threads) and sockets; CPUs are divided evenly, in order.",
    ),
    (
        "features",
        "Options of the architecture; what is not named is absent.",
    ),
    (
        "tlb.policy",
        "How contiguous groups and large pages are held.",
    ),
    (
        "tlb.l1i",
        "A first-level TLB array of the instruction side: entries, entries per set, page sizes.",
    ),
    ("tlb.l1d", "A first-level TLB array of the data side."),
    ("tlb.l2", "A second-level TLB array, for both sides."),
    (
        "walk_cache",
        "Where pointers to tables of this level are kept: in_l2_tlb, or entries and ways.",
    ),
    (
        "cache",
        "The data path: sizes in KiB, latencies in core cycles or, with _ns, in nanoseconds.",
    ),
    ("memory", "Memory nodes, one a socket."),
    ("interconnect", "What cores share beside memory."),
    (
        "cost.cycles",
        "Prices in core cycles; a price given here replaces one in nanoseconds.",
    ),
    (
        "cost.ns",
        "Prices in nanoseconds; a price given here replaces one in cycles.",
    ),
];

/// A profile called `name` that extends `parent`, whose resolved text is `document`: every figure
/// of the parent stands in it as a comment.
pub(super) fn skeleton(name: &str, parent: &str, document: &Table) -> String {
    let mut text = format!(
        "# A machine profile. It is {parent} but for what is changed below: take the `#` away from a\n\
         # line and from the table above it. Every number needs its source (a document and a place in\n\
         # it, a measurement, a reason) and its quality: read, measured, derived, recalled, estimated\n\
         # or fitted. `mmuscope profile check` says whether the result is plausible.\n\n\
         name = \"{name}\"\nextends = \"{parent}\"\nabout = \"{parent}, changed\"\n"
    );
    write_table(document, "", &mut text);
    text
}

fn write_table(table: &Table, path: &str, text: &mut String) {
    let is_table = |value: &Value| {
        value
            .as_table()
            .is_some_and(|it| !it.contains_key("quality"))
    };
    let own: Vec<_> = table.iter().filter(|(_, value)| !is_table(value)).collect();
    if !path.is_empty() && !own.is_empty() {
        text.push('\n');
        if let Some(about) = about(path) {
            let _ = writeln!(text, "# {about}");
        }
        let _ = writeln!(text, "# [{path}]");
        for (key, value) in own {
            if let Some(meaning) = operation(path, key) {
                let _ = writeln!(text, "#   {meaning}");
            }
            let _ = writeln!(text, "# {key} = {}", inline(value));
        }
    }
    for (key, value) in table {
        if let (true, Value::Table(inner)) = (is_table(value), value) {
            let below = if path.is_empty() {
                key.clone()
            } else {
                format!("{path}.{key}")
            };
            write_table(inner, &below, text);
        }
    }
}

fn about(path: &str) -> Option<&'static str> {
    let begins = |begin: &str| path == begin || path.starts_with(&format!("{begin}."));
    let fitting = TABLES.iter().filter(|(begin, _)| begins(begin));
    fitting.max_by_key(|(begin, _)| begin.len()).map(|it| it.1)
}

fn operation(path: &str, key: &str) -> Option<&'static str> {
    let priced = path.starts_with("cost.");
    let found = Operation::ALL.iter().find(|it| priced && it.key() == key);
    found.map(|it| it.about().trim())
}

/// A value on one line; numbers with value, source and quality in this order.
fn inline(value: &Value) -> String {
    let Value::Table(table) = value else {
        return value.to_string();
    };
    let known = ["value", "source", "quality"];
    let parts = known
        .iter()
        .filter_map(|key| Some(format!("{key} = {}", table.get(*key)?)));
    format!("{{ {} }}", parts.collect::<Vec<_>>().join(", "))
}
