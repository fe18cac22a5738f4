//! Where the cycles of a core went: categories that exclude each other, and their sums.

use serde::{Serialize, Serializer};

use super::Cycles;

/// What a cycle was spent on.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Category {
    /// Instructions, at the cost of their class.
    Execute,
    /// Data accesses that missed the first-level data cache.
    Data,
    /// Data accesses to lines that another core had modified, or had to give up.
    Sharing,
    /// Translations that the second-level TLB had to give.
    L2Tlb,
    /// Table walks.
    Walk,
    /// Table walks that were needed only because an invalidation had removed the translation.
    Refill,
    /// Issuing TLB invalidations, and what a local one or an x86 flush takes.
    Invalidate,
    /// Waiting in a barrier for the core's own broadcast invalidations.
    BarrierWait,
    /// Barriers by themselves.
    Barrier,
    /// Writes of registers that translation depends on.
    ContextWrite,
    /// Exception, interrupt and system-call entry and exit.
    Exception,
    /// Sending inter-processor interrupts.
    IpiSend,
    /// Receiving them.
    IpiReceive,
    /// Idle: waiting for an event, an interrupt, or a line that another core will write.
    Wait,
}

impl Category {
    /// The number of categories.
    pub const COUNT: usize = 14;
    /// Every category, in the order of reports.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Execute,
        Self::Data,
        Self::Sharing,
        Self::L2Tlb,
        Self::Walk,
        Self::Refill,
        Self::Invalidate,
        Self::BarrierWait,
        Self::Barrier,
        Self::ContextWrite,
        Self::Exception,
        Self::IpiSend,
        Self::IpiReceive,
        Self::Wait,
    ];

    /// The name in reports: lower case with underscores.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Execute => "execute",
            Self::Data => "data",
            Self::Sharing => "sharing",
            Self::L2Tlb => "l2_tlb",
            Self::Walk => "walk",
            Self::Refill => "refill",
            Self::Invalidate => "invalidate",
            Self::BarrierWait => "barrier_wait",
            Self::Barrier => "barrier",
            Self::ContextWrite => "context_write",
            Self::Exception => "exception",
            Self::IpiSend => "ipi_send",
            Self::IpiReceive => "ipi_receive",
            Self::Wait => "wait",
        }
    }
}

/// Cycles by category.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Attribution {
    by: [Cycles; Category::COUNT],
}

impl Attribution {
    /// Adds `cycles` to `category`.
    pub fn charge(&mut self, category: Category, cycles: Cycles) {
        self.by[category as usize] += cycles;
    }

    /// The cycles of one category.
    #[must_use]
    pub const fn get(&self, category: Category) -> Cycles {
        self.by[category as usize]
    }

    /// The sum over all categories: the time on the clock.
    #[must_use]
    pub fn total(&self) -> Cycles {
        self.by.iter().copied().sum()
    }

    /// What was added since `earlier`, a previous state of the same attribution.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut difference = self.clone();
        for (now, then) in difference.by.iter_mut().zip(&earlier.by) {
            *now = *now - *then;
        }
        difference
    }

    /// Adds another core's or region's attribution.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.by.iter_mut().zip(&other.by) {
            *mine += *theirs;
        }
    }

    /// Every category with its cycles, in the order of reports.
    pub fn iter(&self) -> impl Iterator<Item = (Category, Cycles)> + '_ {
        Category::ALL.into_iter().map(|c| (c, self.get(c)))
    }
}

impl Serialize for Attribution {
    /// A map from category name to cycles.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter().map(|(c, cycles)| (c.name(), cycles)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn categories_are_listed_in_the_order_of_their_index() {
        for (index, category) in Category::ALL.into_iter().enumerate() {
            assert_eq!(category as usize, index);
        }
    }

    #[test]
    fn attribution_splits_into_before_and_since() {
        let mut early = Attribution::default();
        early.charge(Category::Walk, Cycles::new(3));
        let mut late = early.clone();
        late.charge(Category::Walk, Cycles::new(4));
        late.charge(Category::Data, Cycles::new(5));
        let mut sum = early.clone();
        sum.merge(&late.since(&early));
        assert_eq!(sum, late);
        assert_eq!(late.total(), Cycles::new(12));
    }
}
