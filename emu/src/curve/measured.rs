//! Measured latencies, to stand beside the model's. No figure of a profile was chosen by them,
//! except where the profile's source says that it was measured on that machine.

use serde::{Deserialize, Serialize};

use super::Touch;

const CHASES: &str = include_str!("../../data/published/chase.csv");

/// One measured curve.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Measured {
    /// The machine as its author named it.
    pub machine: String,
    /// The size of its pages: `4K` or `2M`.
    pub folio: String,
    /// Who measured it, and how.
    pub source: String,
    /// The points, by footprint.
    pub points: Vec<MeasuredPoint>,
}

/// One measured point.
#[derive(Copy, Clone, PartialEq, Debug, Serialize)]
pub struct MeasuredPoint {
    /// Bytes of address space.
    pub footprint: u64,
    /// Nanoseconds a load.
    pub nanoseconds: f64,
}

#[derive(Clone, Debug, Deserialize)]
struct Row {
    machine: String,
    /// Profiles that are of such a machine, separated by spaces.
    profiles: String,
    folio: String,
    touch: String,
    footprint: u64,
    ns: f64,
    source: String,
}

/// A broken row of the built-in table would be dropped here, and is caught by a test.
fn rows() -> Vec<Row> {
    let mut reader = ::csv::Reader::from_reader(CHASES.as_bytes());
    reader.deserialize().filter_map(Result::ok).collect()
}

/// What was measured on machines that `profile` describes.
pub(super) fn beside(profile: &str, touch: Touch) -> Vec<Measured> {
    let mut curves: Vec<Measured> = Vec::new();
    let fits = |row: &Row| {
        row.touch == touch.name() && row.profiles.split(' ').any(|name| name == profile)
    };
    for row in rows().into_iter().filter(fits) {
        let point = MeasuredPoint {
            footprint: row.footprint,
            nanoseconds: row.ns,
        };
        let same = |it: &&mut Measured| it.machine == row.machine && it.folio == row.folio;
        match curves.iter_mut().find(same) {
            Some(curve) => curve.points.push(point),
            None => curves.push(Measured {
                machine: row.machine,
                folio: row.folio,
                source: row.source,
                points: vec![point],
            }),
        }
    }
    curves
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_read_and_rises_in_footprint() {
        assert_eq!(rows().len(), CHASES.lines().count() - 1);
        for touch in [Touch::Page, Touch::Line] {
            for profile in ["zen3-guest", "sapphire-rapids-guest", "ivy-bridge"] {
                for curve in beside(profile, touch) {
                    assert!(curve.points.is_sorted_by(|a, b| a.footprint < b.footprint));
                    assert!(curve.points.iter().all(|it| it.nanoseconds > 0.0));
                }
            }
        }
        assert_eq!(beside("zen3-guest", Touch::Page).len(), 2);
        assert!(beside("no-such-profile", Touch::Page).is_empty());
    }
}
