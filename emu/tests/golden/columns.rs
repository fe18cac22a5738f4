//! The columns that are compared, what they correspond to in our counters, and how exact the
//! comparison can be.

use mmuscope_models::addr::Level;
use mmuscope_models::counters::Counters;

use super::case::{Case, Threads};

/// Our counts of one call.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Of the CPU that makes the call.
    pub initiator: Counters,
    /// Of the others, summed.
    pub others: Counters,
}

/// How a golden count and ours compare.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Rule {
    /// Every row equals ours.
    Exact,
    /// As [`Rule::Exact`] for rows without a timer interrupt; each interrupt during the call
    /// adds at most two of them. Interrupts are an edge of the measurement: they come from the
    /// host's time, not from the call.
    TimerAdds(u64),
    /// Depends on what the other CPU happened to do. With a spinning thread a preempted spinner
    /// leaves the process for a while, so single rows may show less: the largest equals ours,
    /// and each is at least 0.6 of it. Without a running thread the smallest must be ours.
    AtMostOurs,
    /// As [`Rule::AtMostOurs`], but with a preempted spinner any smaller number is possible: it
    /// catches up with one full flush instead.
    LargestIsOurs,
    /// A preempted spinner adds register writes for its context switches: the smallest row
    /// equals ours.
    SmallestIsOurs,
}

/// One compared column.
#[derive(Debug)]
pub struct Column {
    /// What it is called in messages: the golden columns it sums.
    pub golden: &'static [&'static str],
    rule: Rule,
    ours: fn(&Measured) -> u64,
}

/// Table stores of the user half at `level`, by whichever CPU.
macro_rules! tables {
    ($kind:ident, $level:ident) => {
        |m| {
            let level = Level::$level.index();
            m.initiator.lower_tables.$kind[level] + m.others.lower_tables.$kind[level]
        }
    };
}

macro_rules! all_cpus {
    ($($field:ident).+) => {
        |m| m.initiator.$($field).+ + m.others.$($field).+
    };
}

const fn exact(golden: &'static [&'static str], ours: fn(&Measured) -> u64) -> Column {
    Column {
        golden,
        rule: Rule::Exact,
        ours,
    }
}

const fn ruled(golden: &'static [&'static str], rule: Rule, ours: fn(&Measured) -> u64) -> Column {
    Column { golden, rule, ours }
}

/// Every compared column.
pub const COLUMNS: &[Column] = &[
    exact(&["pt_L0_install_table"], tables!(install_table, L0)),
    exact(&["pt_L1_install_table"], tables!(install_table, L1)),
    exact(&["pt_L1_install_leaf"], tables!(install_leaf, L1)),
    exact(&["pt_L2_install_table"], tables!(install_table, L2)),
    exact(&["pt_L2_install_leaf"], tables!(install_leaf, L2)),
    exact(&["pt_L3_install_leaf"], tables!(install_leaf, L3)),
    exact(&["pt_L0_clear_table"], tables!(clear_table, L0)),
    exact(&["pt_L1_clear_table"], tables!(clear_table, L1)),
    exact(&["pt_L1_clear_leaf"], tables!(clear_leaf, L1)),
    exact(&["pt_L2_clear_table"], tables!(clear_table, L2)),
    exact(&["pt_L2_clear_leaf"], tables!(clear_leaf, L2)),
    exact(&["pt_L3_clear_leaf"], tables!(clear_leaf, L3)),
    exact(&["pt_L2_attr"], tables!(attr, L2)),
    exact(&["pt_L3_attr"], tables!(attr, L3)),
    exact(&["cont_set"], |m| {
        let sum = |c: &Counters| c.lower_tables.cont_set.iter().sum::<u64>();
        sum(&m.initiator) + sum(&m.others)
    }),
    // A repeat for the erratum is a TLBI VALE1IS like others, with a zero operand.
    exact(
        &["tlbi_va", "tlbi_erratum_repeat"],
        all_cpus!(tlbi_broadcast.va),
    ),
    exact(&["tlbi_asid"], all_cpus!(tlbi_broadcast.asid)),
    exact(&["tlbi_range"], all_cpus!(tlbi_broadcast.range)),
    exact(&["tlbi_range_pages"], all_cpus!(tlbi_broadcast.range_pages)),
    exact(&["tlbi_vaa"], all_cpus!(tlbi_broadcast.vaa)),
    ruled(
        &["dsb_ish"],
        Rule::TimerAdds(2),
        all_cpus!(barriers.dsb_ish),
    ),
    exact(&["invlpg_initiator"], |m| m.initiator.flushes.invlpg),
    exact(&["cr3_initiator"], |m| m.initiator.flushes.cr3),
    ruled(&["invlpg_others"], Rule::LargestIsOurs, |m| {
        m.others.flushes.invlpg
    }),
    ruled(&["cr3_others"], Rule::SmallestIsOurs, |m| {
        m.others.flushes.cr3
    }),
    ruled(&["ipi_fb", "sgi_sent"], Rule::AtMostOurs, |m| {
        m.initiator.ipis_sent
    }),
    ruled(&["flush_tlb_func_others"], Rule::AtMostOurs, |m| {
        m.others.ipis_received
    }),
];

impl Column {
    /// The golden file's name for it.
    pub fn name(&self) -> String {
        self.golden.join("+")
    }

    /// `None` if the case agrees, else what differs.
    pub fn differs(&self, case: &Case, measured: &Measured) -> Option<String> {
        let ours = (self.ours)(measured);
        let rows: Vec<u64> = case
            .rows
            .iter()
            .map(|row| self.golden.iter().map(|column| row.get(column)).sum())
            .collect();
        let smallest = rows.iter().copied().min().unwrap_or(0);
        let largest = rows.iter().copied().max().unwrap_or(0);
        let spinning = case.key.threads == Threads::Spin;
        let agrees = match self.rule {
            Rule::Exact => rows.iter().all(|&golden| golden == ours),
            Rule::TimerAdds(each) => case.rows.iter().zip(&rows).all(|(row, &golden)| {
                (ours..=ours + each * row.get("irq_timer")).contains(&golden)
            }),
            Rule::AtMostOurs if spinning => {
                largest == ours && rows.iter().all(|&golden| golden * 10 >= ours * 6)
            }
            Rule::LargestIsOurs if spinning => largest == ours,
            Rule::AtMostOurs | Rule::LargestIsOurs | Rule::SmallestIsOurs => smallest == ours,
        };
        (!agrees).then(|| format!("{}: kernel {rows:?}, ours {ours}", self.name()))
    }
}
