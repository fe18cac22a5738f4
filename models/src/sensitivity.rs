//! How much a time depends on constants that nobody has measured.
//!
//! A run records how often each price was paid and where each line was found. From that record its
//! time can be computed again under other prices, without running anything: the guest would do the
//! same, only the sums change. [`Sensitivity`] does so [`DRAWS`] times. Each time every constant of
//! the profile is moved within the range of its quality ([`Quality::range`]), evenly on a
//! logarithmic scale and independently of the others; [`Interval`] is the median of the results
//! with the 5th and 95th percentile. The moves depend on the names of the constants only, so that
//! two runs on one machine are moved together and their ratio has an interval of its own.
//!
//! What is not a plain sum is scaled:
//! - waiting for broadcasts by the prices of the server, each by its share;
//! - waiting for bandwidth by that of memory;
//! - being idle by what the time of the other cores is scaled by, for it is them one waits for.

use serde::Serialize;

use crate::cost::{Attribution, Category, Ledger, Operation};
use crate::counters::{Counters, Lines};
use crate::profile::{Profile, Quality, Sourced};

/// How many times the constants are moved.
pub const DRAWS: usize = 199;

/// What one core did, and took.
#[derive(Copy, Clone, Debug)]
pub struct Recorded<'a> {
    /// What it counted.
    pub counters: &'a Counters,
    /// How often it paid each price.
    pub ledger: &'a Ledger,
    /// Where its time went.
    pub attribution: &'a Attribution,
}

/// The middle of several values, and the range that nine in ten of them lie in.
#[derive(Copy, Clone, PartialEq, Debug, Serialize)]
pub struct Interval {
    /// The 5th percentile.
    pub low: f64,
    /// The median.
    pub median: f64,
    /// The 95th percentile.
    pub high: f64,
}

impl Interval {
    /// Of `values`; `None` if there are none.
    #[must_use]
    pub fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let last = values.len().checked_sub(1)?;
        let at = |percent: usize| values[(last * percent + 50) / 100];
        Some(Self {
            low: at(5),
            median: at(50),
            high: at(95),
        })
    }
}

/// Latencies of the data path in cycles, in the order of [`sources`].
const SOURCES: usize = 6;

/// The constants of a machine, once.
#[derive(Clone, PartialEq, Debug)]
struct Constants {
    prices: [f64; Operation::COUNT],
    l1d: f64,
    /// By source: L2, L3, memory, remote memory, another core, a core of another socket.
    latencies: [f64; SOURCES],
    overlap: f64,
    /// What a line occupies a memory node for, relative to the profile.
    line_service: f64,
}

/// Prices a record again.
#[derive(Clone, Debug)]
pub struct Sensitivity {
    base: Constants,
    draws: Vec<Constants>,
}

impl Sensitivity {
    /// For the constants of `profile`.
    #[must_use]
    pub fn new(profile: &Profile) -> Self {
        let draws = 0..DRAWS as u64;
        Self {
            base: Constants::of(profile, &|_, _| 1.0),
            draws: draws
                .map(|draw| Constants::of(profile, &|key, quality| moved(key, quality, draw)))
                .collect(),
        }
    }

    /// The time of core `measured` of `cores` under each set of moved constants, in cycles.
    #[must_use]
    pub fn times(&self, cores: &[Recorded<'_>], measured: usize) -> Vec<f64> {
        let Some(core) = cores.get(measured) else {
            return Vec::new();
        };
        let busy = |constants: &Constants, it: &Recorded<'_>| constants.busy(&self.base, it);
        let before: f64 = cores.iter().map(|it| busy(&self.base, it)).sum();
        let wait = core.attribution.get(Category::Wait).as_f64();
        let time = |constants: &Constants| {
            let own = busy(constants, core);
            if wait <= 0.0 {
                return own;
            }
            let now: f64 = cores.iter().map(|it| busy(constants, it)).sum();
            own + wait * ratio(now, before)
        };
        self.draws.iter().map(time).collect()
    }
}

fn ratio(now: f64, before: f64) -> f64 {
    if before > 0.0 { now / before } else { 1.0 }
}

/// What a constant is multiplied by in one draw.
fn moved(key: &str, quality: Quality, draw: u64) -> f64 {
    let name = key.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mut z: u64 = draw.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(name);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    #[expect(clippy::cast_precision_loss, reason = "53 bits are kept")]
    let even = (z >> 11) as f64 / (1_u64 << 53) as f64;
    (1.0 + quality.range()).powf(2.0 * even - 1.0)
}

impl Constants {
    fn of(profile: &Profile, factor: &dyn Fn(&str, Quality) -> f64) -> Self {
        let machine = profile.machine();
        let cache = &machine.cache;
        let ghz = profile.ghz();
        let figure = |key: &str, number: &Sourced<f64>| number.value * factor(key, number.quality);
        let ns = |key: &str, number: &Sourced<f64>| figure(key, number) * ghz;
        let l1d = figure("cache.l1d", &cache.l1d.latency_cycles);
        let l2 = figure("cache.l2", &cache.l2.latency_cycles);
        let memory = ns("cache.dram_ns", &cache.dram_ns);
        let l3 = cache.l3.as_ref();
        let l3 = l3.map_or(memory, |it| figure("cache.l3", &it.latency_cycles));
        let or = |key: &str, number: &Option<Sourced<f64>>, other: f64| {
            number.as_ref().map_or(other, |it| ns(key, it))
        };
        let remote = or("memory.remote_ns", &machine.memory.remote_ns, memory);
        let core = or("cache.transfer_ns", &cache.transfer_ns, l3);
        let far = remote.max(core);
        let far = or("cache.transfer_remote_ns", &cache.transfer_remote_ns, far);
        let rate = machine.memory.node_gb_per_s.as_ref();
        Self {
            prices: prices(profile, factor),
            l1d,
            latencies: [l2, l3, memory, remote, core, far],
            overlap: figure("cache.overlap_factor", &cache.overlap_factor).max(1.0),
            line_service: rate.map_or(1.0, |it| factor("memory.node_gb_per_s", it.quality)),
        }
    }

    fn price(&self, operation: Operation) -> f64 {
        self.prices[operation as usize]
    }

    /// The time of a core without idling.
    fn busy(&self, base: &Self, core: &Recorded<'_>) -> f64 {
        let spent = |category| core.attribution.get(category).as_f64();
        let paid = Operation::ALL
            .iter()
            .map(|operation| count(core.ledger.of(*operation)) * self.price(*operation));
        paid.sum::<f64>()
            + self.classes(core.counters)
            + self.walk_reads(base, core)
            + spent(Category::Data) * ratio(self.data(base, core), base.data(base, core))
            + spent(Category::Sharing) * self.sharing(base, &core.counters.data_lines)
            + spent(Category::BarrierWait) * self.broadcasts(base, core)
    }

    /// Instructions by class; their counts are counters.
    fn classes(&self, counters: &Counters) -> f64 {
        let it = &counters.instructions;
        [
            (it.integer, Operation::Integer),
            (it.load, Operation::Load),
            (it.store, Operation::Store),
            (it.atomic, Operation::Atomic),
            (it.branch, Operation::Branch),
            (it.system, Operation::System),
            (it.other, Operation::Other),
        ]
        .into_iter()
        .map(|(counted, class)| count(counted) * self.price(class))
        .sum()
    }

    /// Reads of walks: the starts are in the ledger, the rest is waiting for bandwidth.
    fn walk_reads(&self, base: &Self, core: &Recorded<'_>) -> f64 {
        let reads = |it: &Self| {
            let lines = &core.counters.walk_lines;
            let found = sources(lines).into_iter().zip(it.latencies);
            count(lines.l1d) * it.l1d + found.map(|(n, latency)| n * latency).sum::<f64>()
        };
        let walks = core.attribution.get(Category::Walk) + core.attribution.get(Category::Refill);
        let started = count(core.ledger.of(Operation::Walk)) * base.price(Operation::Walk);
        let queued = (walks.as_f64() - started - reads(base)).max(0.0);
        reads(self) + queued / self.line_service
    }

    /// Stalls of data accesses, transfers apart, as far as latencies make them up.
    fn data(&self, base: &Self, core: &Recorded<'_>) -> f64 {
        let lines = &core.counters.data_lines;
        let found = sources(lines);
        let missed: f64 = found[..4].iter().sum();
        let dependent = ratio(count(lines.dependent), missed).min(1.0);
        let dependent = if missed > 0.0 { dependent } else { 0.0 };
        let beyond = |(n, latency): (f64, f64)| n * (latency - self.l1d).max(0.0);
        let whole: f64 = found
            .into_iter()
            .zip(self.latencies)
            .take(4)
            .map(beyond)
            .sum();
        let overlapped = 1.0 - dependent;
        // Without any line found, all of it is waiting for bandwidth.
        if whole <= 0.0 {
            return base.line_service / self.line_service;
        }
        whole * (dependent + overlapped / self.overlap)
    }

    /// What transfers between cores are scaled by.
    fn sharing(&self, base: &Self, lines: &Lines) -> f64 {
        let transfers = |it: &Self| {
            let found = sources(lines).into_iter().zip(it.latencies).skip(4);
            let beyond = |(n, latency): (f64, f64)| n * (latency - it.l1d).max(0.0);
            found.map(beyond).sum::<f64>()
        };
        ratio(transfers(self), transfers(base))
    }

    /// What waiting for broadcasts is scaled by.
    fn broadcasts(&self, base: &Self, core: &Recorded<'_>) -> f64 {
        let messages = count(core.ledger.of(Operation::TlbiIssue)).max(1.0);
        let demand = |it: &Self| {
            it.price(Operation::DvmLatency)
                + messages * it.price(Operation::DvmService)
                + it.price(Operation::DvmSync)
        };
        ratio(demand(self), demand(base))
    }
}

/// Lines by where they were found beyond the first level, in the order of
/// [`Constants::latencies`].
fn sources(lines: &Lines) -> [f64; SOURCES] {
    [
        lines.l2,
        lines.l3,
        lines.memory,
        lines.remote_memory,
        lines.core,
        lines.remote_core,
    ]
    .map(count)
}

#[expect(clippy::cast_precision_loss, reason = "exact below 2^53")]
const fn count(counted: u64) -> f64 {
    counted as f64
}

fn prices(profile: &Profile, factor: &dyn Fn(&str, Quality) -> f64) -> [f64; Operation::COUNT] {
    let cost = &profile.machine().cost;
    let mut prices = [0.0; Operation::COUNT];
    for operation in Operation::ALL {
        let given = cost.cycles.get(operation).or(cost.ns.get(operation));
        let price = profile.costs().of(*operation).as_f64();
        prices[*operation as usize] = match (given, operation.fallback()) {
            (Some(number), _) => price * factor(operation.key(), number.quality),
            (None, Some((other, times))) => prices[other as usize] * count(times),
            (None, None) => price,
        };
    }
    prices
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::Cycles;

    fn profile() -> Profile {
        Profile::builtin("skylake-sp").unwrap()
    }

    #[test]
    fn an_interval_holds_nine_in_ten() {
        let interval = Interval::of((1..=199).map(f64::from).collect()).unwrap();
        assert_eq!(
            (interval.low, interval.median, interval.high),
            (11.0, 100.0, 189.0)
        );
        assert_eq!(Interval::of(Vec::new()), None);
    }

    #[test]
    fn constants_move_within_the_range_of_their_quality() {
        for draw in 0..DRAWS as u64 {
            assert!((moved("integer", Quality::Read, draw) - 1.0).abs() < 1e-12);
            let factor = moved("integer", Quality::Estimated, draw);
            assert!((1.0 / 1.5..=1.5).contains(&factor), "{factor}");
            assert!((factor - moved("load", Quality::Estimated, draw)).abs() > 0.0);
        }
    }

    #[test]
    fn what_is_paid_by_a_read_price_has_no_interval() {
        let text = profile().to_toml().replace("\"estimated\"", "\"read\"");
        let text = text.replace("\"recalled\"", "\"read\"");
        let text = text.replace("\"derived\"", "\"read\"");
        let sure = Profile::parse(&text).unwrap();
        let mut ledger = Ledger::default();
        let mut attribution = Attribution::default();
        let price = sure.costs().of(Operation::Invlpg);
        for _ in 0..10 {
            ledger.count(Operation::Invlpg);
            attribution.charge(Category::Invalidate, price);
        }
        let counters = Counters::default();
        let recorded = |attribution| Recorded {
            counters: &counters,
            ledger: &ledger,
            attribution,
        };
        let times = Sensitivity::new(&sure).times(&[recorded(&attribution)], 0);
        let expected = price.times(10).as_f64();
        assert!(times.iter().all(|it| (it - expected).abs() < 1e-6));
        let times = Sensitivity::new(&profile()).times(&[recorded(&attribution)], 0);
        let interval = Interval::of(times).unwrap();
        assert!(interval.low > expected / 1.5 && interval.low < expected / 1.2);
        assert!(interval.high < expected * 1.5 && interval.high > expected * 1.2);
    }

    #[test]
    fn idling_is_scaled_like_the_time_of_the_others() {
        let (mut ledger, mut attribution) = (Ledger::default(), Attribution::default());
        let price = profile().costs().of(Operation::IpiReceive);
        ledger.count(Operation::IpiReceive);
        attribution.charge(Category::IpiReceive, price);
        let mut idle = Attribution::default();
        idle.charge(Category::Wait, Cycles::new(1000));
        let (counters, nothing) = (Counters::default(), Ledger::default());
        let cores = [
            Recorded {
                counters: &counters,
                ledger: &nothing,
                attribution: &idle,
            },
            Recorded {
                counters: &counters,
                ledger: &ledger,
                attribution: &attribution,
            },
        ];
        let sensitivity = Sensitivity::new(&profile());
        let waits = sensitivity.times(&cores, 0);
        let works = sensitivity.times(&cores, 1);
        for (wait, work) in waits.iter().zip(&works) {
            assert!((wait / 1000.0 - work / price.as_f64()).abs() < 1e-9);
        }
    }
}
