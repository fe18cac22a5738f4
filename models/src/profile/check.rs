//! Plausibility of a profile: what TOML types cannot say.

use std::collections::BTreeMap;

use super::spec::{ArrayName, ArraySpec, CacheSpec, Machine, WalkCacheSpec};
use super::{Constant, ProfileError, Sourced};
use crate::addr::Level;
use crate::cost::{Applies, Operation};
use crate::tlb::Replacement;

/// More than any machine has; keeps allocations sane.
const MAX_ENTRIES: usize = 1 << 20;
const MAX_CACHE_KIB: usize = 1 << 20;
/// The largest price, in cycles or nanoseconds: a second at 1 GHz.
const MAX_COST: f64 = 1e9;

type Checked = Result<(), ProfileError>;

struct Checker<'a> {
    machine: &'a Machine,
}

/// Checks every value of `machine`.
pub(super) fn check(machine: &Machine) -> Checked {
    let checker = Checker { machine };
    checker.identity()?;
    checker.topology()?;
    checker.tlbs()?;
    checker.walk_caches()?;
    checker.data_path()?;
    checker.interconnect()?;
    Operation::ALL.iter().try_for_each(|op| checker.cost(*op))
}

/// Checks that every figure of the profile called `name` says where it comes from.
pub(super) fn sources(name: &str, figures: &[Constant]) -> Checked {
    match figures.iter().find(|it| it.source.trim().is_empty()) {
        None => Ok(()),
        Some(figure) => Err(ProfileError::Implausible {
            profile: name.to_owned(),
            key: format!("{}.source", figure.key),
            found: "empty".to_owned(),
            expected: "where the value comes from".to_owned(),
        }),
    }
}

impl Checker<'_> {
    fn fail(&self, key: &str, found: impl ToString, expected: impl ToString) -> Checked {
        Err(ProfileError::Implausible {
            profile: self.machine.name.clone(),
            key: key.to_owned(),
            found: found.to_string(),
            expected: expected.to_string(),
        })
    }

    fn number<T>(&self, key: &str, number: &Sourced<T>, low: T, high: T) -> Checked
    where
        T: PartialOrd + ToString + Copy,
    {
        // Written so that a NaN fails too.
        if number.value >= low && number.value <= high {
            return Ok(());
        }
        let range = format!("{} to {}", low.to_string(), high.to_string());
        self.fail(key, number.value, range)
    }

    fn is_arm(&self) -> bool {
        self.machine.arch == "aarch64"
    }

    fn identity(&self) -> Checked {
        let (name, arch) = (&self.machine.name, &self.machine.arch);
        if !matches!(arch.as_str(), "aarch64" | "x86_64") {
            return self.fail("arch", arch, "aarch64 or x86_64");
        }
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
        if name.is_empty() || !name.chars().all(fits) {
            let expected = "lower-case letters, digits, `-` and `.`";
            return self.fail("name", format!("{name:?}"), expected);
        }
        for feature in self.machine.features.keys() {
            if ((*feature as u8) < 16) != self.is_arm() {
                let key = format!("features.{}", feature.name());
                return self.fail(&key, "given", format!("only options that {arch} has"));
            }
        }
        Ok(())
    }

    fn topology(&self) -> Checked {
        let topology = &self.machine.topology;
        self.number("clock.ghz", &self.machine.clock.ghz, 0.1, 10.0)?;
        self.number("topology.cpus", &topology.cpus, 1, 1024)?;
        self.number("topology.sockets", &topology.sockets, 1, 64)?;
        if !topology.cpus.value.is_multiple_of(topology.sockets.value) {
            let expected = format!("a divisor of topology.cpus ({})", topology.cpus.value);
            return self.fail("topology.sockets", topology.sockets.value, expected);
        }
        Ok(())
    }

    fn tlbs(&self) -> Checked {
        let tlb = &self.machine.tlb;
        self.arrays("tlb.l1i", &tlb.l1i)?;
        self.arrays("tlb.l1d", &tlb.l1d)?;
        if !tlb.l2i.is_empty() && tlb.l2.is_empty() {
            return self.fail("tlb.l2i", "given", "arrays in tlb.l2 too");
        }
        [
            ("tlb.l1d_store", &tlb.l1d_store),
            ("tlb.l2", &tlb.l2),
            ("tlb.l2i", &tlb.l2i),
        ]
        .into_iter()
        .filter(|(_, arrays)| !arrays.is_empty())
        .try_for_each(|(level, arrays)| self.arrays(level, arrays))
    }

    fn arrays(&self, level: &str, arrays: &BTreeMap<ArrayName, ArraySpec>) -> Checked {
        if arrays.is_empty() {
            return self.fail(level, "empty", "at least one array");
        }
        let mut taken = Vec::new();
        for (name, array) in arrays {
            let key = format!("{level}.{name}");
            self.geometry(&key, &array.entries, &array.ways)?;
            self.replacement(&key, array)?;
            let key = format!("{key}.sizes");
            if array.sizes.is_empty() {
                return self.fail(&key, "empty", "at least one page size");
            }
            for size in &array.sizes {
                if taken.contains(size) {
                    let expected = "each size in one array of a level";
                    return self.fail(&key, format!("{size} again"), expected);
                }
                taken.push(*size);
            }
        }
        Ok(())
    }

    fn replacement(&self, key: &str, array: &ArraySpec) -> Checked {
        let chosen = array.replacement.as_ref().map(|it| it.value);
        let ways = array.ways.value;
        let fits = ways.is_power_of_two() && ways <= Replacement::MAX_TREE_WAYS;
        if chosen == Some(Replacement::TreePlru) && !fits {
            let expected = format!(
                "a power of two up to {} with tree-plru",
                Replacement::MAX_TREE_WAYS
            );
            return self.fail(&format!("{key}.ways"), ways, expected);
        }
        if array.seed.is_some() && chosen != Some(Replacement::Random) {
            let key = format!("{key}.seed");
            return self.fail(&key, "given", "a seed only with replacement random");
        }
        Ok(())
    }

    fn geometry(&self, key: &str, entries: &Sourced<usize>, ways: &Sourced<usize>) -> Checked {
        self.number(&format!("{key}.entries"), entries, 1, MAX_ENTRIES)?;
        self.number(&format!("{key}.ways"), ways, 1, MAX_ENTRIES)?;
        if !entries.value.is_multiple_of(ways.value) {
            let expected = format!("a divisor of {key}.entries ({})", entries.value);
            return self.fail(&format!("{key}.ways"), ways.value, expected);
        }
        Ok(())
    }

    fn walk_caches(&self) -> Checked {
        for (level, spec) in &self.machine.walk_cache {
            let key = format!("walk_cache.l{}", Level::from(*level).number());
            match spec {
                WalkCacheSpec {
                    in_l2_tlb: None,
                    entries: Some(entries),
                    ways: Some(ways),
                } => self.geometry(&key, entries, ways)?,
                WalkCacheSpec {
                    in_l2_tlb: Some(in_l2_tlb),
                    entries: None,
                    ways: None,
                } => {
                    if in_l2_tlb.value && self.machine.tlb.l2.is_empty() {
                        return self.fail(&key, "in_l2_tlb", "an array in tlb.l2 to hold it");
                    }
                }
                _ => {
                    let expected = "either in_l2_tlb, or entries and ways";
                    return self.fail(&key, "neither or both", expected);
                }
            }
        }
        Ok(())
    }

    fn data_path(&self) -> Checked {
        let cache = &self.machine.cache;
        let mut nearer = ("nothing".to_owned(), 0.0);
        let levels = [
            ("l1d", Some(&cache.l1d)),
            ("l2", Some(&cache.l2)),
            ("l3", cache.l3.as_ref()),
        ];
        for (name, spec) in levels {
            let Some(spec) = spec else { continue };
            let key = format!("cache.{name}");
            self.cache(&key, spec)?;
            let latency_key = format!("{key}.latency_cycles");
            let latency = spec.latency_cycles.value;
            if latency <= nearer.1 {
                let expected = format!("more than {} ({})", nearer.0, nearer.1);
                return self.fail(&latency_key, latency, expected);
            }
            nearer = (latency_key, latency);
        }
        self.number("cache.dram_ns", &cache.dram_ns, 1.0, 10_000.0)?;
        let dram = cache.dram_ns.value * self.machine.clock.ghz.value;
        if dram <= nearer.1 {
            let expected = format!("more than {} ({} cycles)", nearer.0, nearer.1);
            return self.fail("cache.dram_ns", format!("{dram} cycles"), expected);
        }
        self.number("cache.overlap_factor", &cache.overlap_factor, 1.0, 100.0)?;
        self.distances(nearer.1)
    }

    /// What lies further away takes longer: another core than the caches of one's own, another
    /// node than one's own.
    fn distances(&self, caches: f64) -> Checked {
        let machine = self.machine;
        let own_ns = machine.cache.dram_ns.value;
        let caches_ns = caches / machine.clock.ghz.value;
        let near = machine.cache.l2.latency_cycles.value / machine.clock.ghz.value;
        let transfer = machine.cache.transfer_ns.as_ref();
        self.rising(
            "cache.transfer_ns",
            transfer,
            ("cache.l2.latency_cycles", near),
        )?;
        let nearer = transfer.map_or(caches_ns, |it| it.value);
        let far = machine.cache.transfer_remote_ns.as_ref();
        self.rising(
            "cache.transfer_remote_ns",
            far,
            ("cache.transfer_ns", nearer),
        )?;
        let remote = machine.memory.remote_ns.as_ref();
        self.rising("memory.remote_ns", remote, ("cache.dram_ns", own_ns))?;
        if let Some(piece) = &machine.memory.interleave_kib {
            self.number("memory.interleave_kib", piece, 4, 1 << 40)?;
        }
        match &machine.memory.node_gb_per_s {
            Some(rate) => self.number("memory.node_gb_per_s", rate, 0.01, 100_000.0),
            None => Ok(()),
        }
    }

    /// A latency in nanoseconds, if given, above that of another key.
    fn rising(
        &self,
        key: &str,
        number: Option<&Sourced<f64>>,
        (nearer, nearer_ns): (&str, f64),
    ) -> Checked {
        let Some(number) = number else {
            return Ok(());
        };
        self.number(key, number, 1.0, 100_000.0)?;
        if number.value < nearer_ns {
            let expected = format!("at least {nearer} ({nearer_ns:.1} ns)");
            return self.fail(key, number.value, expected);
        }
        Ok(())
    }

    fn cache(&self, key: &str, spec: &CacheSpec) -> Checked {
        let latency = &spec.latency_cycles;
        self.number(&format!("{key}.size_kib"), &spec.size_kib, 1, MAX_CACHE_KIB)?;
        self.number(&format!("{key}.ways"), &spec.ways, 1, 1024)?;
        self.number(&format!("{key}.latency_cycles"), latency, 0.1, 10_000.0)?;
        let lines = spec.size_kib.value * 16;
        if !lines.is_multiple_of(spec.ways.value) {
            let expected = format!("a divisor of its {lines} lines");
            return self.fail(&format!("{key}.ways"), spec.ways.value, expected);
        }
        Ok(())
    }

    fn interconnect(&self) -> Checked {
        let interconnect = &self.machine.interconnect;
        match (&interconnect.dvm_domain, &interconnect.dvm_window) {
            (Some(_), Some(window)) if self.is_arm() => {
                self.number("interconnect.dvm_window", window, 1, MAX_ENTRIES)
            }
            (None, None) if !self.is_arm() => Ok(()),
            _ if self.is_arm() => {
                self.fail("interconnect", "incomplete", "dvm_domain and dvm_window")
            }
            _ => self.fail("interconnect.dvm_*", "given", "nothing: x86 has no DVM"),
        }
    }

    fn cost(&self, operation: Operation) -> Checked {
        let cost = &self.machine.cost;
        let key = operation.key();
        let wanted = match operation.applies() {
            Applies::Everywhere => true,
            Applies::Optional => {
                cost.cycles.contains_key(&operation) || cost.ns.contains_key(&operation)
            }
            Applies::Aarch64 => self.is_arm(),
            Applies::X86 => !self.is_arm(),
        };
        let arch = &self.machine.arch;
        match (cost.cycles.get(&operation), cost.ns.get(&operation)) {
            (None, None) if wanted => {
                let expected = format!("a price in cost.cycles.{key} or cost.ns.{key}");
                self.fail(&format!("cost.cycles.{key}"), "missing", expected)
            }
            (None, None) => Ok(()),
            (Some(price), None) if wanted => {
                self.number(&format!("cost.cycles.{key}"), price, 0.0, MAX_COST)
            }
            (None, Some(price)) if wanted => {
                self.number(&format!("cost.ns.{key}"), price, 0.0, MAX_COST)
            }
            (Some(_), Some(_)) if wanted => {
                let expected = format!("one of cost.cycles.{key} and cost.ns.{key}");
                self.fail(&format!("cost.ns.{key}"), "given twice", expected)
            }
            _ => {
                let expected = format!("only operations that {arch} has");
                self.fail(&format!("cost.*.{key}"), "given", expected)
            }
        }
    }
}
