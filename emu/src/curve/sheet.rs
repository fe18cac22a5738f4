//! Curves as figures.

use super::text::{basis, table};
use super::{Curves, MachineCurves};
use crate::chart::{Axis, Figure, Mark, Panel, Scale, Series, SeriesKind, Sheet};

/// A figure a machine, with measured points beside the curves.
#[must_use]
pub fn sheet(curves: &Curves) -> Sheet {
    let machines = || curves.curves.iter();
    let names: Vec<_> = machines().map(|it| it.machine.profile.as_str()).collect();
    let mut notes = vec![curves.assumption.to_owned()];
    for machine in machines() {
        for it in &machine.measured {
            notes.push(format!(
                "Measured, {} pages: {}; {}.",
                it.folio, it.machine, it.source
            ));
        }
        notes.push(basis(machine));
    }
    Sheet {
        title: format!("Access latency of {}", names.join(", ")),
        lead: format!(
            "What one load takes when each depends on the one before, against the footprint of a \
             random ring of {}, seed {}.",
            curves.touch, curves.seed
        ),
        figures: machines()
            .map(|it| Panel::Plot(figure(curves, it)))
            .collect(),
        notes,
    }
}

fn figure(curves: &Curves, machine: &MachineCurves) -> Figure {
    let modelled = machine.lines.iter().map(|line| Series {
        name: format!("{} pages", line.folio.name()),
        kind: SeriesKind::Line,
        points: line
            .points
            .iter()
            .map(|it| (super::float(it.footprint), it.nanoseconds))
            .collect(),
    });
    let measured = machine.measured.iter().map(|it| Series {
        name: format!("{} pages, measured", it.folio),
        kind: SeriesKind::Dots,
        points: it
            .points
            .iter()
            .map(|it| (super::float(it.footprint), it.nanoseconds))
            .collect(),
    });
    let marks = machine.reaches.iter().map(|it| Mark {
        at: super::float(it.footprint),
        label: it.name.clone(),
    });
    Figure {
        title: format!("{}: {}", machine.machine.profile, curves.touch),
        caption: machine.machine.about.clone(),
        x: Axis {
            label: "footprint, bytes".to_owned(),
            scale: Scale::Bytes,
        },
        y: Axis {
            label: "nanoseconds a load".to_owned(),
            scale: Scale::Log10,
        },
        series: modelled.chain(measured).collect(),
        marks: marks.collect(),
        table: table(machine),
    }
}
