//! What figures rest on: which counters are exact for any profile, which for the profile's
//! geometry, and what the cycles of each category are priced by.

use mmuscope_models::cost::Category;
use mmuscope_models::profile::{Constant, Quality};
use serde::Serialize;

use super::Pairs;

/// How exact the figures of a region are, by name; a counter that is a table stands for all in it.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Exactness {
    /// Counters of what the guest did: the same on any profile with the same features, unless the
    /// guest itself goes by time.
    pub counted: &'static [&'static str],
    /// Counters of what TLBs, walk caches and caches held: exact for the sizes that the profile
    /// states.
    pub exact_for_geometry: &'static [&'static str],
    /// Sums of the profile's costs: as good as these figures.
    pub priced: &'static [&'static str],
}

/// How exact the figures of every report are.
pub const EXACTNESS: Exactness = Exactness {
    counted: &[
        "instructions",
        "loads",
        "stores",
        "lower_tables",
        "upper_tables",
        "tlbi_local",
        "tlbi_broadcast",
        "flushes",
        "barriers",
        "context_writes",
        "exceptions",
        "ipis_sent",
        "ipis_received",
    ],
    exact_for_geometry: &[
        "fetches",
        "fetch",
        "data",
        "removed",
        "data_lines",
        "walk_lines",
    ],
    priced: &[
        "cycles",
        "nanoseconds",
        "interval",
        "spread",
        "speedup",
        "speedup_interval",
        "calls",
        "attribution",
        "stolen",
        "interrupted",
    ],
};

/// The last parts of the paths of the figures that price a category. Parts that end in a dot are
/// beginnings: whole tables.
fn priced_by(category: Category) -> &'static [&'static str] {
    match category {
        Category::Execute => &[
            "integer",
            "load",
            "store",
            "atomic",
            "branch",
            "system",
            "other",
            "block_line",
        ],
        Category::Data => &["cache.", "memory."],
        Category::Sharing => &["transfer_ns", "transfer_remote_ns"],
        Category::L2Tlb => &["l2_tlb_hit"],
        Category::Walk | Category::Refill => &["walk", "cache.", "memory."],
        Category::Invalidate => &[
            "tlbi_issue",
            "tlbi_local",
            "invlpg",
            "invpcid_address",
            "invpcid_context",
            "invpcid_all",
            "cr3_flush",
            "cr4_flush",
        ],
        Category::BarrierWait => &["dvm_latency", "dvm_service", "dvm_sync", "dvm_window"],
        Category::Barrier => &["dsb", "dsb_local", "dmb", "isb", "fence"],
        Category::ContextWrite => &["context_write", "cr3_keep"],
        Category::Exception => &[
            "exception_entry",
            "exception_exit",
            "interrupt_entry",
            "interrupt_exit",
            "syscall_entry",
            "syscall_exit",
            "isolation_switch",
        ],
        Category::IpiSend => &["ipi_send_first", "ipi_send_next"],
        Category::IpiReceive => &["ipi_receive", "ipi_flight", "ipi_flight_remote"],
        // Waiting has no price of its own: it ends when another core gets there.
        Category::Wait => &[],
    }
}

fn prices(category: Category, path: &str) -> bool {
    let last = path.rsplit('.').next().unwrap_or(path);
    priced_by(category).iter().any(|part| match part {
        table if table.ends_with('.') => path.starts_with(table),
        name => *name == last,
    })
}

/// The poorest quality among the figures that each category of cycles rests on; categories that
/// rest on none are absent.
pub fn poorest_qualities(figures: &[Constant]) -> Pairs<Quality> {
    let poorest = |category| {
        let relevant = figures.iter().filter(|it| prices(category, &it.key));
        relevant.map(|it| it.quality).max()
    };
    let categories = Category::ALL.into_iter();
    Pairs(
        categories
            .filter_map(|it| Some((it.name().to_owned(), poorest(it)?)))
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use mmuscope_models::counters::Counters;
    use mmuscope_models::profile::Profile;

    use super::*;

    #[test]
    fn every_counter_is_either_counted_or_exact_for_the_geometry() {
        let counters = serde_json::to_value(Counters::default()).unwrap();
        let mut names: Vec<_> = counters.as_object().unwrap().keys().cloned().collect();
        let mut classed = [EXACTNESS.counted, EXACTNESS.exact_for_geometry].concat();
        names.sort_unstable();
        classed.sort_unstable();
        assert_eq!(names, classed);
    }

    #[test]
    fn every_cost_of_the_built_in_profiles_prices_a_category() {
        for name in Profile::names() {
            for figure in Profile::builtin(name).unwrap().constants() {
                let priced = Category::ALL.into_iter().any(|it| prices(it, &figure.key));
                assert!(priced || !figure.key.starts_with("cost."), "{}", figure.key);
            }
        }
    }

    #[test]
    fn a_category_is_as_good_as_its_poorest_figure() {
        let figure = |key: &str, quality| Constant {
            key: key.to_owned(),
            value: "1".to_owned(),
            source: String::new(),
            quality,
        };
        let figures = [
            figure("cost.cycles.integer", Quality::Read),
            figure("cost.cycles.branch", Quality::Estimated),
            figure("cache.l2.latency_cycles", Quality::Read),
            figure("cost.ns.walk", Quality::Recalled),
        ];
        let poorest = poorest_qualities(&figures);
        assert_eq!(poorest.get("execute"), Some(&Quality::Estimated));
        assert_eq!(poorest.get("data"), Some(&Quality::Read));
        assert_eq!(poorest.get("walk"), Some(&Quality::Recalled));
        assert_eq!(poorest.get("ipi_send"), None);
    }
}
