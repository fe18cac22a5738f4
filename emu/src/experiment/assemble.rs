//! From finished runs to a report.

use super::grammar::{Point, Value};
use super::machines::Selected;
use super::{Experiment, Finished, Options};
use crate::report::{EXACTNESS, Machine, Pairs, Report, Run, SCHEMA, poorest_qualities};

impl Experiment<'_> {
    /// The report of finished runs, in the order of the plan.
    pub(super) fn report(&self, finished: Vec<Finished>, options: &Options) -> Report {
        let first = || {
            let mut first = finished.iter().flat_map(|it| it.regions.first());
            first.next().map(|it| it.name.clone())
        };
        let region = self.region().map(str::to_owned).or_else(first);
        let texts = |values: &[Value]| values.iter().map(|it| it.text().to_owned()).collect();
        let axes = self.settings.iter();
        let runs = self.plan.iter().zip(finished);
        Report {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION"),
            scenario: self.name().to_owned(),
            exactness: EXACTNESS,
            region: region.unwrap_or_default(),
            timing: options.timing,
            seeds: options.seeds.clone(),
            axes: Pairs(axes.map(|it| (it.key.clone(), texts(&it.values))).collect()),
            base: Pairs(
                self.base
                    .iter()
                    .map(|(key, value)| (key.clone(), value.text().to_owned()))
                    .collect(),
            ),
            machines: self.machines.iter().map(Machine::of).collect(),
            runs: runs
                .map(|((machine, point), finished)| self.finished(*machine, point, finished))
                .collect(),
            published: Vec::new(),
            notes: Vec::new(),
        }
        .complete()
    }

    fn finished(&self, machine: usize, point: &Point, finished: Finished) -> Run {
        let axes = point.iter();
        Run {
            machine: self.machines[machine].profile.name().to_owned(),
            point: Pairs(
                axes.map(|(key, value)| (key.to_owned(), value.text().to_owned()))
                    .collect(),
            ),
            verdict: finished.verdict,
            speedup: None,
            speedup_interval: None,
            calls: None,
            results: finished.results,
            regions: finished.regions,
            console: finished.console,
        }
    }
}

impl Machine {
    /// What a report says of a selected machine.
    pub(crate) fn of(selected: &Selected) -> Self {
        let profile = &selected.profile;
        let figures = profile.constants();
        let mut qualities: Vec<_> = figures.iter().map(|it| it.quality).collect();
        qualities.sort_unstable();
        let mut counted: Vec<(String, usize)> = Vec::new();
        for quality in qualities {
            let name = quality.to_string();
            match counted.last_mut() {
                Some(last) if last.0 == name => last.1 += 1,
                _ => counted.push((name, 1)),
            }
        }
        Self {
            profile: profile.name().to_owned(),
            about: profile.about().to_owned(),
            arch: profile.arch().to_owned(),
            clock_ghz: profile.ghz(),
            hash: format!("{:016x}", profile.hash()),
            overrides: selected.overrides.clone(),
            features: profile
                .features()
                .iter()
                .map(|it| it.name().to_owned())
                .collect(),
            qualities: Pairs(counted),
            category_qualities: poorest_qualities(&figures),
            figures,
        }
    }
}
