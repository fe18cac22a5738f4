//! Markdown: tables to paste into a patch description or a review.

use std::fmt::Write as _;

use super::number::times;
use super::text::{COLUMNS, heading, notes, short_cells, title, told, variant, variant_header};
use super::{ExportError, Exporter, PublishedPair, Report};

/// The report as Markdown with pipe tables.
#[derive(Copy, Clone, Debug, Default)]
pub struct Markdown;

impl Exporter for Markdown {
    fn export(&self, report: &Report) -> Result<Vec<u8>, ExportError> {
        let mut out = format!("## {}\n", escaped(&title(report)));
        for machine in &report.machines {
            let _ = write!(out, "\n### {}\n\n", escaped(&heading(report, machine)));
            let mut head = variant_header(report);
            let left = head.len();
            head.extend(COLUMNS.map(str::to_owned));
            let rows = report.runs_on(&machine.profile).map(|run| {
                let mut row = variant(report, run);
                row.extend(short_cells(report, run));
                row.resize(head.len(), String::new());
                row
            });
            let rows: Vec<_> = rows.collect();
            table(&mut out, &head, left, &rows);
            list(&mut out, &told(report, machine));
        }
        if !report.published.is_empty() {
            out.push_str("\n### Published ratios\n\n");
            let head = [
                "machine",
                "step",
                "measured on",
                "source",
                "here",
                "published",
            ];
            let rows: Vec<_> = report.published.iter().map(pair).collect();
            table(&mut out, &head.map(str::to_owned), 4, &rows);
        }
        let mut notes = notes(report);
        notes.extend(
            report
                .command()
                .map(|it| format!("To see the same again: `{it}`")),
        );
        list(&mut out, &notes);
        Ok(out.into_bytes())
    }
}

fn pair(pair: &PublishedPair) -> Vec<String> {
    vec![
        pair.machine.clone(),
        format!("{} to {}", pair.slower, pair.faster),
        pair.measured_on.clone(),
        pair.source.clone(),
        times(pair.here),
        times(pair.published),
    ]
}

/// A pipe table whose first `left` columns are aligned to the left.
fn table(out: &mut String, head: &[String], left: usize, rows: &[Vec<String>]) {
    let mut line = |cells: &[String]| {
        let cells: Vec<_> = cells.iter().map(|it| escaped(it)).collect();
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    };
    line(head);
    let rule = |at| if at < left { "---" } else { "---:" };
    line(
        &(0..head.len())
            .map(|at| rule(at).to_owned())
            .collect::<Vec<_>>(),
    );
    for row in rows {
        line(row);
    }
}

fn list(out: &mut String, sentences: &[String]) {
    if !sentences.is_empty() {
        out.push('\n');
    }
    for sentence in sentences {
        // Some sentences quote commands; the others have nothing that Markdown would take.
        let _ = writeln!(out, "- {}", sentence.replace('*', "\\*"));
    }
}

/// Text that means itself inside a table.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|")
        .replace('*', "\\*")
        .replace('\n', "<br>")
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn tables_have_as_many_cells_in_every_line() {
        let text = String::from_utf8(Markdown.export(&sample::report()).unwrap()).unwrap();
        let mut tables: Vec<Vec<usize>> = Vec::new();
        let mut inside = false;
        for line in text.lines() {
            let is_row = line.starts_with("| ");
            if is_row && !inside {
                tables.push(Vec::new());
            }
            if let (true, Some(table)) = (is_row, tables.last_mut()) {
                table.push(line.matches(" |").count());
            }
            inside = is_row;
        }
        assert_eq!(
            tables.len(),
            3,
            "two machines and the published ratios: {text}"
        );
        for table in tables {
            assert!(
                table.len() > 2 && table.iter().all(|it| *it == table[0]),
                "{table:?}"
            );
        }
        assert!(text.contains("| pud | 200.0k |"), "{text}");
        assert!(text.contains("UNSAFE"));
    }
}
