//! Profile files: where in the text an error is, and what was probably meant.

use mmuscope_models::profile::ProfileError;

use super::grammar::suggest;

/// The line, counted from 1, on which the value at `path` stands in a TOML text; that of its table
/// if it is missing there; `None` if the text has neither (it may come from another profile).
pub(super) fn line_of(text: &str, path: &str) -> Option<usize> {
    let mut table = String::new();
    let mut nearest: Option<(usize, usize)> = None;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.starts_with('#') {
            continue;
        }
        let here = if let Some(header) = line.strip_prefix('[') {
            table = header
                .split(']')
                .next()
                .unwrap_or_default()
                .trim()
                .to_owned();
            table.clone()
        } else if let Some((key, _)) = line.split_once('=') {
            let key = key.trim().trim_matches('"');
            if table.is_empty() {
                key.to_owned()
            } else {
                format!("{table}.{key}")
            }
        } else {
            continue;
        };
        let holds = path == here || path.starts_with(&format!("{here}."));
        if holds && nearest.is_none_or(|(_, length)| here.len() > length) {
            nearest = Some((index + 1, here.len()));
        }
    }
    nearest.map(|it| it.0)
}

/// The word that was probably meant where an error names an unknown one and those that are known,
/// in backticks or as a list behind `are` or `expected`.
pub(super) fn meant(error: &ProfileError) -> Option<String> {
    let message = error.to_string();
    let begin = message.find("unknown ")?;
    let (_, rest) = message[begin..].split_once('`')?;
    let (word, rest) = rest.split_once('`')?;
    let known = rest.split(|c: char| !(c.is_ascii_alphanumeric() || "_-.".contains(c)));
    suggest(word, known.filter(|it| !it.is_empty())).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "name = \"x\"\n\n[clock]\n# ghz = 1\nghz = 2\n[tlb.l2.all]\nways = 3\n";

    #[test]
    fn a_path_is_found_on_its_line_or_on_that_of_its_table() {
        let lines = [
            "name",
            "clock.ghz",
            "clock.ghz.value",
            "clock.mhz",
            "tlb.l2.all.ways",
        ];
        let found = lines.map(|path| line_of(TEXT, path));
        assert_eq!(found, [Some(1), Some(5), Some(5), Some(3), Some(7)]);
        assert_eq!(line_of(TEXT, "cache.dram_ns"), None);
    }

    #[test]
    fn a_slip_in_a_key_or_a_name_is_recognised() {
        let syntax = |message: &str| ProfileError::Syntax {
            profile: "x".to_owned(),
            key: None,
            message: message.to_owned(),
        };
        let slip = syntax("unknown variant `isbb`, expected one of `dsb`, `isb`, `invlpg`");
        assert_eq!(meant(&slip).as_deref(), Some("isb"));
        let slip = syntax("unknown page size `511M`, expected 4K, 16K, 512M");
        assert_eq!(meant(&slip).as_deref(), Some("512M"));
        assert_eq!(meant(&syntax("missing field `quality`")), None);
        assert_eq!(meant(&syntax("unknown field `zzz`, expected `ghz`")), None);
    }
}
