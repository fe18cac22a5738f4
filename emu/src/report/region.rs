//! A region of interest: what was counted and taken between the guest's marks.

use mmuscope_models::cost::{Attribution, Cycles};
use mmuscope_models::counters::Counters;
use mmuscope_models::sensitivity::Interval;
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use serde_json::Value;

/// Counters of the data path, which is modelled only while time passes.
const TIMED_COUNTERS: [&str; 2] = ["data_lines", "walk_lines"];

/// What happened between the guest's marks around a region of interest. Figures of time are absent
/// from a run in which no time passed.
#[derive(Clone, Debug, Default)]
pub struct Region {
    /// The name that the guest gave it.
    pub name: String,
    /// From begin to end on the clock of the core that began it.
    pub cycles: Option<Cycles>,
    /// The same at the profile's clock.
    pub nanoseconds: Option<f64>,
    /// The same in cycles, as the profile's uncertain constants move.
    pub interval: Option<Interval>,
    /// How far runs with different seeds are apart, if there was more than one.
    pub spread: Option<Spread>,
    /// Counters, summed over all cores.
    pub counters: Counters,
    /// Cycles by category, summed over all cores.
    pub attribution: Option<Attribution>,
    /// What cores that did not begin the region lost to it, if there are any.
    pub stolen: Option<Stolen>,
    /// Requests for interrupts of other cores, each to one core or several.
    pub ipi_requests: Option<u64>,
    /// Core by core, if there is more than one.
    pub cores: Vec<Core>,
    /// The cycles under each set of moved constants.
    pub repriced: Vec<f64>,
}

/// One core's part of a region.
#[derive(Clone, Debug, Default)]
pub struct Core {
    /// The core's number.
    pub core: usize,
    /// What its clock advanced.
    pub cycles: Option<Cycles>,
    /// Its counters.
    pub counters: Counters,
    /// Its cycles by category.
    pub attribution: Option<Attribution>,
    /// The time that interrupts took: acknowledging them, entry, handler and exit. It is in the
    /// categories, too.
    pub interrupted: Option<Cycles>,
}

/// Cycles that other cores' business took from cores with business of their own.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Stolen {
    /// In interrupts, handlers included.
    pub interrupts: Cycles,
    /// In walks that an invalidation had made necessary; those inside handlers are in both.
    pub refills: Cycles,
}

/// How far runs with different seeds are apart, in cycles.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Spread {
    /// How many runs.
    pub runs: usize,
    /// The fastest.
    pub low: Cycles,
    /// The middle one, which the report shows.
    pub median: Cycles,
    /// The slowest.
    pub high: Cycles,
}

/// A region that was entered repeatedly: caches are cold the first time, warm later.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Calls {
    /// How often it was entered.
    pub count: usize,
    /// The cycles of the first time.
    pub cold: Cycles,
    /// The median of the others.
    pub warm: Cycles,
}

impl Calls {
    /// The times that `name` was entered, if more than once.
    pub(super) fn of(regions: &[Region], name: &str) -> Option<Self> {
        let named = regions.iter().filter(|it| it.name == name);
        let all = named.map(|it| it.cycles).collect::<Option<Vec<_>>>()?;
        let (cold, later) = all.split_first()?;
        let mut later = later.to_vec();
        later.sort_unstable();
        Some(Self {
            count: all.len(),
            cold: *cold,
            warm: *later.get(later.len().checked_sub(1)? / 2)?,
        })
    }
}

/// A counter by its dotted name, whether it is one that only timed runs have.
pub(super) fn is_timed(name: &str) -> bool {
    TIMED_COUNTERS.iter().any(|table| {
        name.strip_prefix(table)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

/// Counters without those that an untimed run does not have.
struct Counted<'a>(&'a Counters, bool);

impl Serialize for Counted<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.1 {
            return self.0.serialize(serializer);
        }
        let mut value = serde_json::to_value(self.0).map_err(serde::ser::Error::custom)?;
        if let Value::Object(fields) = &mut value {
            fields.retain(|name, _| !is_timed(name));
        }
        value.serialize(serializer)
    }
}

impl Serialize for Region {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", &self.name)?;
        if let Some(cycles) = self.cycles {
            map.serialize_entry("cycles", &cycles)?;
        }
        if let Some(nanoseconds) = self.nanoseconds {
            map.serialize_entry("nanoseconds", &nanoseconds)?;
        }
        if let Some(interval) = &self.interval {
            map.serialize_entry("interval", interval)?;
        }
        if let Some(spread) = &self.spread {
            map.serialize_entry("spread", spread)?;
        }
        map.serialize_entry("counters", &Counted(&self.counters, self.cycles.is_some()))?;
        if let Some(attribution) = &self.attribution {
            map.serialize_entry("attribution", attribution)?;
        }
        if let Some(stolen) = &self.stolen {
            map.serialize_entry("stolen", stolen)?;
        }
        map.serialize_entry("cores", &self.cores)?;
        map.end()
    }
}

impl Serialize for Core {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("core", &self.core)?;
        if let Some(cycles) = self.cycles {
            map.serialize_entry("cycles", &cycles)?;
        }
        map.serialize_entry("counters", &Counted(&self.counters, self.cycles.is_some()))?;
        if let Some(attribution) = &self.attribution {
            map.serialize_entry("attribution", attribution)?;
        }
        if let Some(interrupted) = self.interrupted {
            map.serialize_entry("interrupted", &interrupted)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn called(cycles: &[u64]) -> Vec<Region> {
        let region = |cycles: &u64| Region {
            name: "call".to_owned(),
            cycles: Some(Cycles::new(*cycles)),
            ..Region::default()
        };
        cycles.iter().map(region).collect()
    }

    #[test]
    fn the_first_call_is_cold_and_the_others_warm() {
        let calls = Calls::of(&called(&[900, 300, 100, 200]), "call").unwrap();
        assert_eq!(calls.count, 4);
        assert_eq!(calls.cold, Cycles::new(900));
        assert_eq!(calls.warm, Cycles::new(200));
        assert_eq!(Calls::of(&called(&[900]), "call"), None);
        assert_eq!(Calls::of(&called(&[900, 1]), "other"), None);
    }

    #[test]
    fn figures_of_time_are_absent_and_not_zero() {
        let text = serde_json::to_string(&Region::default()).unwrap();
        for absent in [
            "cycles",
            "nanoseconds",
            "attribution",
            "data_lines",
            "walk_lines",
        ] {
            assert!(!text.contains(absent), "{absent} in {text}");
        }
        assert!(text.contains("\"loads\":0"));
        let timed = serde_json::to_string(&called(&[5])[0]).unwrap();
        assert!(timed.contains("\"cycles\":5.0") && timed.contains("data_lines"));
    }
}
