//! Curves as tables for a terminal.

use std::fmt::Write as _;

use super::{Curves, Folio, MachineCurves};
use crate::chart::Table;
use crate::experiment::grammar::size_text;
use crate::report::wrapped;

/// A table a machine: nanoseconds a load, walks a load, and what was measured.
#[must_use]
pub fn text(curves: &Curves) -> String {
    let mut out = String::new();
    let what = curves.touch;
    for machine in &curves.curves {
        let it = &machine.machine;
        let _ = writeln!(
            out,
            "{} ({}, {} GHz): {what}, seed {}\n",
            it.profile, it.arch, it.clock_ghz, curves.seed
        );
        aligned(&mut out, &table(machine));
        out.push('\n');
        for reach in &machine.reaches {
            let size = size_text(reach.footprint);
            let _ = writeln!(out, "{} ends at {size}.", reach.name);
        }
        for measured in &machine.measured {
            let line = format!(
                "Measured, {} pages: {}; {}.",
                measured.folio, measured.machine, measured.source
            );
            out.push_str(&wrapped(&line));
        }
        out.push_str(&wrapped(&basis(machine)));
        out.push('\n');
    }
    out.push_str(&wrapped(curves.assumption));
    out
}

/// What a machine's curves rest on, in one sentence.
pub(super) fn basis(machine: &MachineCurves) -> String {
    let it = &machine.machine;
    let qualities = it.qualities.0.iter();
    let counts: Vec<_> = qualities
        .map(|(name, count)| format!("{count} {name}"))
        .collect();
    let changed = match it.overrides.as_slice() {
        [] => String::new(),
        overrides => format!(", with {}", overrides.join(" ")),
    };
    format!(
        "{} rests on {} figures: {}{changed}; its hash is {}.",
        it.profile,
        it.figures.len(),
        counts.join(", "),
        it.hash
    )
}

/// The numbers of a machine's curves: a row a footprint.
pub(super) fn table(machine: &MachineCurves) -> Table {
    let mut head = vec!["footprint".to_owned()];
    let folios: Vec<Folio> = machine.lines.iter().map(|it| it.folio).collect();
    head.extend(folios.iter().map(|it| format!("{} ns", it.name())));
    head.extend(
        machine
            .measured
            .iter()
            .map(|it| format!("{} measured", it.folio)),
    );
    head.extend(folios.iter().map(|it| format!("{} walks", it.name())));
    let footprints = machine.lines.first().map(|it| it.points.as_slice());
    let rows = footprints
        .unwrap_or_default()
        .iter()
        .enumerate()
        .map(|(index, first)| {
            let mut row = vec![size_text(first.footprint)];
            let points = || machine.lines.iter().map(|it| &it.points[index]);
            row.extend(points().map(|it| format!("{:.2}", it.nanoseconds)));
            row.extend(machine.measured.iter().map(|it| {
                let same = it.points.iter().find(|it| it.footprint == first.footprint);
                same.map_or_else(String::new, |it| format!("{:.2}", it.nanoseconds))
            }));
            row.extend(points().map(|it| format!("{:.3}", it.walks)));
            row
        });
    let rows = rows.collect();
    Table { head, rows }
}

/// Appends a table: the first column to the left, the others to the right.
fn aligned(out: &mut String, table: &Table) {
    let rows = || std::iter::once(&table.head).chain(&table.rows);
    let widths: Vec<usize> = (0..table.head.len())
        .map(|column| rows().map(|row| row[column].len()).max().unwrap_or(0))
        .collect();
    for row in rows() {
        let mut line = format!("{:<1$}", row[0], widths[0]);
        for (cell, width) in row.iter().zip(&widths).skip(1) {
            let _ = write!(line, "  {cell:>width$}");
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
}
