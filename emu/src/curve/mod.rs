//! Access latency against footprint: the `chase` guest at one footprint after the other.
//!
//! Each load of a chase needs the one before, so nothing overlaps: the profiles are used with an
//! overlap of 1 and with a load that takes the latency of the first-level cache, where other
//! guests count what a load adds to code that does not wait for it. Everything else is the
//! profile's.
//!
//! ```text
//! measured  public measurements, to stand beside the model's
//! text      a table for a terminal
//! sheet     figures
//! ```

mod measured;
mod sheet;
mod text;

use std::fmt;

use mmuscope_guest::chase::CHASE;
use mmuscope_models::cost::Category;
use mmuscope_models::profile::{Profile, ProfileError};
use mmuscope_models::system::Timing;
use rayon::prelude::*;
use serde::Serialize;
use thiserror::Error;

use crate::experiment::grammar::size_text;
use crate::experiment::machines::Selected;
use crate::experiment::{Finished, Job, arch_of};
use crate::report::{Machine, Pairs, Verdict};

pub use measured::{Measured, MeasuredPoint};
pub use sheet::sheet;
pub use text::text;

/// The name and version of the JSON form.
pub const SCHEMA: &str = "mmuscope-curve/1";

/// What every curve rests on beside the profile.
pub const ASSUMPTION: &str = "Every load waits for the one before: loads take the latency of the \
    first-level cache, and no two misses overlap.";

/// The fewest loads of a point, and the most if its ring is longer than that.
const LOADS: (u64, u64) = (16_384, 1 << 20);

/// Why curves cannot be drawn. Each prints as one line.
#[derive(Debug, Error)]
pub enum CurveError {
    /// No footprint lies between the limits.
    #[error("--from {from} --to {to}: expected at least one page of 4K, and --from not above --to")]
    Limits {
        /// The least footprint as text.
        from: String,
        /// The greatest.
        to: String,
    },
    /// A profile cannot be used without overlap.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// A run came to no good end.
    #[error("chase {point}: {message}")]
    Run {
        /// Which.
        point: String,
        /// What went wrong.
        message: String,
    },
    /// The host's threads.
    #[error("--jobs: {0}")]
    Threads(#[from] rayon::ThreadPoolBuildError),
}

/// The pieces that memory comes in.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Serialize)]
pub enum Folio {
    /// Single pages of 4 KiB.
    #[serde(rename = "4K")]
    Page,
    /// 16 pages with the contiguous bit; AArch64 only.
    #[serde(rename = "64K")]
    Group,
    /// Leaves of 2 MiB.
    #[serde(rename = "2M")]
    Huge,
}

impl Folio {
    /// All of them, smallest first.
    pub const ALL: [Self; 3] = [Self::Page, Self::Group, Self::Huge];

    /// Its size as the guest's parameter has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Page => "4K",
            Self::Group => "64K",
            Self::Huge => "2M",
        }
    }

    fn exists_on(self, profile: &Profile) -> bool {
        self != Self::Group || profile.arch() == "aarch64"
    }
}

/// What is linked.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Touch {
    /// One line of each 4 KiB: the TLB fills up.
    Page,
    /// Every line: the caches fill up.
    Line,
}

impl Touch {
    /// The guest's parameter.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Page => "page",
            Self::Line => "line",
        }
    }

    /// Bytes from one slot of the ring to the next.
    #[must_use]
    pub const fn stride(self) -> u64 {
        match self {
            Self::Page => 4096,
            Self::Line => 64,
        }
    }
}

impl fmt::Display for Touch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Page => "one line of each 4K",
            Self::Line => "every line",
        })
    }
}

/// What is to be drawn.
#[derive(Clone, Debug)]
pub struct Request {
    /// The machines.
    pub machines: Vec<Selected>,
    /// The least footprint in bytes.
    pub from: u64,
    /// The greatest.
    pub to: u64,
    /// What is linked.
    pub touch: Touch,
    /// Which random ring.
    pub seed: u64,
}

/// The curves of a request.
#[derive(Clone, Debug, Serialize)]
pub struct Curves {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The version of mmuscope.
    pub version: &'static str,
    /// [`ASSUMPTION`].
    pub assumption: &'static str,
    /// What is linked.
    pub touch: Touch,
    /// Which random ring.
    pub seed: u64,
    /// Machine by machine.
    pub curves: Vec<MachineCurves>,
}

/// The curves of one machine.
#[derive(Clone, Debug, Serialize)]
pub struct MachineCurves {
    /// The machine, with every figure of its profile.
    pub machine: Machine,
    /// Where the arrays end.
    pub reaches: Vec<Reach>,
    /// A curve for each size of the pieces.
    pub lines: Vec<Line>,
    /// What was measured on such machines.
    pub measured: Vec<Measured>,
}

/// The footprint at which an array is full.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Reach {
    /// The array.
    pub name: String,
    /// Bytes of address space, as the chase uses them.
    pub footprint: u64,
}

/// One curve.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// The pieces that memory comes in.
    pub folio: Folio,
    /// Footprint by footprint, least first.
    pub points: Vec<Point>,
}

/// One point of a curve.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// Bytes of address space.
    pub footprint: u64,
    /// Links followed.
    pub loads: u64,
    /// Cycles a load, the loop around it included.
    pub cycles: f64,
    /// The same at the profile's clock.
    pub nanoseconds: f64,
    /// Loads that the second-level TLB translated, as a part of all.
    pub l2_tlb_hits: f64,
    /// Loads that took a walk, as a part of all.
    pub walks: f64,
    /// Cycles a load by category.
    pub categories: Pairs<f64>,
}

/// One run that is to be made.
struct Planned {
    machine: usize,
    folio: Folio,
    footprint: u64,
}

impl Request {
    fn footprints(&self) -> Result<Vec<u64>, CurveError> {
        let limits = || CurveError::Limits {
            from: size_text(self.from),
            to: size_text(self.to),
        };
        // Two an octave: a power of two, and the half between it and the next.
        let octaves = (12..63).flat_map(|n| [1u64 << n, 3 << (n - 1)]);
        let whole = octaves.filter(|it| it.is_multiple_of(4096));
        let wanted = whole.filter(|it| (self.from..=self.to).contains(it));
        let footprints: Vec<u64> = wanted.collect();
        if footprints.is_empty() {
            return Err(limits());
        }
        Ok(footprints)
    }

    fn plan(&self) -> Result<Vec<Planned>, CurveError> {
        let footprints = self.footprints()?;
        let mut plan = Vec::new();
        for (machine, selected) in self.machines.iter().enumerate() {
            for folio in Folio::ALL
                .into_iter()
                .filter(|it| it.exists_on(&selected.profile))
            {
                plan.extend(footprints.iter().map(|&footprint| Planned {
                    machine,
                    folio,
                    footprint,
                }));
            }
        }
        Ok(plan)
    }

    /// The number of runs.
    ///
    /// # Errors
    /// The limits hold no footprint.
    pub fn runs(&self) -> Result<usize, CurveError> {
        Ok(self.plan()?.len())
    }

    /// Draws the curves, `jobs` runs at a time or as many as the host has processors; they do not
    /// depend on how many. `run` runs one job, `ended` is told of each.
    ///
    /// # Errors
    /// The limits hold no footprint, or a run came to no good end.
    pub fn draw(
        &self,
        jobs: Option<usize>,
        run: &(dyn Fn(&Job<'_>) -> Result<Finished, String> + Sync),
        ended: &(dyn Fn() + Sync),
    ) -> Result<Curves, CurveError> {
        let plan = self.plan()?;
        let profiles = self.machines.iter().map(|it| without_overlap(&it.profile));
        let profiles: Vec<Profile> = profiles.collect::<Result<_, _>>()?;
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(jobs.unwrap_or(0))
            .build()?;
        let points: Vec<Point> = pool.install(|| {
            plan.par_iter()
                .with_max_len(1)
                .map(|planned| {
                    let point = self.point(&profiles[planned.machine], planned, run);
                    ended();
                    point
                })
                .collect::<Result<_, _>>()
        })?;
        let mut curves: Vec<_> = self.machines.iter().map(|it| self.empty(it)).collect();
        for (planned, point) in plan.iter().zip(points) {
            let lines = &mut curves[planned.machine].lines;
            match lines.last_mut() {
                Some(line) if line.folio == planned.folio => line.points.push(point),
                _ => lines.push(Line {
                    folio: planned.folio,
                    points: vec![point],
                }),
            }
        }
        Ok(Curves {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION"),
            assumption: ASSUMPTION,
            touch: self.touch,
            seed: self.seed,
            curves,
        })
    }

    fn empty(&self, selected: &Selected) -> MachineCurves {
        MachineCurves {
            machine: Machine::of(selected),
            reaches: reaches(&selected.profile, self.touch),
            lines: Vec::new(),
            measured: measured::beside(selected.profile.name(), self.touch),
        }
    }

    fn point(
        &self,
        profile: &Profile,
        planned: &Planned,
        run: &(dyn Fn(&Job<'_>) -> Result<Finished, String> + Sync),
    ) -> Result<Point, CurveError> {
        let slots = planned.footprint / self.touch.stride();
        let laps = LOADS.0.div_ceil(slots.max(1)).max(1);
        let loads = (slots * laps)
            .min(LOADS.1.max(LOADS.0))
            .next_multiple_of(16);
        let params: Vec<(String, String)> = [
            ("footprint", planned.footprint.to_string()),
            ("folio", planned.folio.name().to_owned()),
            ("touch", self.touch.name().to_owned()),
            ("loads", loads.to_string()),
            ("seed", self.seed.to_string()),
        ]
        .map(|(key, value)| (key.to_owned(), value))
        .into();
        let job = Job {
            profile,
            elf: (CHASE.elf)(arch_of(profile)),
            ram: CHASE.ram(&params),
            params,
            cpus: 1,
            features: profile.features(),
            timing: Timing::Full,
            seed: None,
        };
        let failed = |message: String| CurveError::Run {
            point: format!(
                "footprint={} folio={} on {}",
                size_text(planned.footprint),
                planned.folio.name(),
                profile.name()
            ),
            message,
        };
        let finished = run(&job).map_err(failed)?;
        match &finished.verdict {
            Verdict::Fine => {}
            Verdict::Unsafe(message) | Verdict::Failed(message) => {
                return Err(failed(message.clone()));
            }
        }
        let region = finished
            .regions
            .iter()
            .find(|it| it.name == CHASE.regions[0]);
        let region = region.ok_or_else(|| failed("the guest marked no region".to_owned()))?;
        let (Some(cycles), Some(nanoseconds)) = (region.cycles, region.nanoseconds) else {
            return Err(failed("the region has no time".to_owned()));
        };
        let each = |total: f64| total / float(loads);
        let categories = Category::ALL.into_iter().filter_map(|category| {
            let spent = region.attribution.as_ref()?.get(category);
            let cycles = each(spent.as_f64());
            (cycles > 0.0).then(|| (category.name().to_owned(), cycles))
        });
        Ok(Point {
            footprint: planned.footprint,
            loads,
            cycles: each(cycles.as_f64()),
            nanoseconds: each(nanoseconds),
            l2_tlb_hits: each(float(region.counters.data.l2_hits)),
            walks: each(float(region.counters.data.walks)),
            categories: Pairs(categories.collect()),
        })
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts of loads, far below 2^53"
)]
fn float(count: u64) -> f64 {
    count as f64
}

/// The machine as a chain of dependent loads sees it; see [`ASSUMPTION`].
fn without_overlap(profile: &Profile) -> Result<Profile, ProfileError> {
    let mut profile = profile.clone();
    let l1d = profile.machine().cache.l1d.latency_cycles.value;
    let load = l1d.to_string();
    if profile.set("cost.cycles.load", &load).is_err() {
        let ns = l1d / profile.ghz();
        profile.set("cost.ns.load", &ns.to_string())?;
    }
    profile.set("cache.overlap_factor", "1")?;
    Ok(profile)
}

/// Where the arrays that `touch` fills up end.
fn reaches(profile: &Profile, touch: Touch) -> Vec<Reach> {
    let machine = profile.machine();
    let reach = |name: &str, footprint: usize| Reach {
        name: name.to_owned(),
        footprint: footprint as u64,
    };
    match touch {
        Touch::Page => {
            let levels = [("L1 TLB", &machine.tlb.l1d), ("L2 TLB", &machine.tlb.l2)];
            let pages = levels.into_iter().filter_map(|(name, arrays)| {
                let page = mmuscope_models::addr::PageSize::Size4K;
                let array = arrays.values().find(|it| it.sizes.contains(&page))?;
                Some(reach(name, array.entries.value * 4096))
            });
            pages.collect()
        }
        Touch::Line => {
            let cache = &machine.cache;
            let levels = [
                ("L1D", Some(&cache.l1d)),
                ("L2", Some(&cache.l2)),
                ("L3", cache.l3.as_ref()),
            ];
            let caches = levels
                .into_iter()
                .filter_map(|(name, spec)| Some(reach(name, spec?.size_kib.value * 1024)));
            caches.collect()
        }
    }
}

#[cfg(test)]
mod tests;
