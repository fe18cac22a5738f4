//! What cores share beside memory: the server of broadcast TLB maintenance, and the interrupt
//! fabric.
//!
//! **Broadcast.** Each broadcast TLBI is one message, each DSB that waits for some is one more.
//! All messages of a domain are served one after another by one server ([`Dvm`]), so that cores
//! that broadcast at the same time queue. A core's messages are put into the queue when its DSB is
//! served: the caller serves cores in the order of their clocks, which makes the result
//! independent of how a run is cut into slices. A core can have only so many messages outstanding;
//! beyond that, issuing waits for the oldest one.

use crate::cost::Cycles;

/// Identifies a core within its system.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct CoreId(u16);

impl CoreId {
    /// The core with this number, counted from 0.
    #[must_use]
    pub const fn new(number: u16) -> Self {
        Self(number)
    }

    /// The number as an index.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl std::fmt::Display for CoreId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cpu{}", self.0)
    }
}

/// The timing of broadcast maintenance.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct DvmTiming {
    /// From the issue of a message to the server and its completion back, without service.
    pub latency: Cycles,
    /// What an invalidation message occupies the server for.
    pub service: Cycles,
    /// What the synchronisation message of a DSB occupies it for.
    pub sync: Cycles,
    /// Messages that one core can have outstanding; at least 1.
    pub window: usize,
}

/// The server of one broadcast domain.
#[derive(Clone, Debug, Default)]
pub struct Dvm {
    free_at: Cycles,
}

/// The broadcast messages of a core that no DSB has completed yet.
#[derive(Clone, Debug, Default)]
pub struct Outstanding {
    /// When each was issued; while a DSB is served, when each of the first ones is complete.
    issued: Vec<Cycles>,
}

impl Outstanding {
    /// Adds a message issued at `now`.
    pub fn issue(&mut self, now: Cycles) {
        self.issued.push(now);
    }

    /// Whether a DSB has nothing to wait for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.issued.is_empty()
    }

    /// How many messages wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.issued.len()
    }
}

impl Dvm {
    /// Serves a core's outstanding messages and the synchronisation of the DSB that waits for
    /// them. `now` is the core's clock at the DSB; the time at which the DSB completes is
    /// returned, never earlier than `now`.
    pub fn synchronise(
        &mut self,
        timing: &DvmTiming,
        outstanding: &mut Outstanding,
        now: Cycles,
    ) -> Cycles {
        let window = timing.window.max(1);
        // How much later than issued, because the window was full.
        let mut delay = Cycles::ZERO;
        for message in 0..outstanding.issued.len() {
            let mut at = outstanding.issued[message] + delay;
            // One server: messages complete in order, so that this one has the place of the one a
            // window before it.
            if let Some(oldest) = message.checked_sub(window) {
                let free = outstanding.issued[oldest];
                delay += free - at;
                at = at.max(free);
            }
            outstanding.issued[message] = self.serve(at, timing.service) + timing.latency;
        }
        let done = outstanding.issued.last().copied().unwrap_or(now);
        outstanding.issued.clear();
        let synced = self.serve(now + delay, timing.sync) + timing.latency;
        done.max(synced).max(now)
    }

    /// Serves one message that arrives at `at`; returns when it is done.
    fn serve(&mut self, at: Cycles, service: Cycles) -> Cycles {
        self.free_at = self.free_at.max(at) + service;
        self.free_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timing(window: usize) -> DvmTiming {
        DvmTiming {
            latency: Cycles::new(100),
            service: Cycles::new(10),
            sync: Cycles::new(5),
            window,
        }
    }

    #[test]
    fn a_lone_broadcast_takes_its_service_and_the_latency() {
        let mut dvm = Dvm::default();
        let mut own = Outstanding::default();
        own.issue(Cycles::new(1000));
        let done = dvm.synchronise(&timing(8), &mut own, Cycles::new(1001));
        assert_eq!(done, Cycles::new(1000 + 10 + 5 + 100));
        assert!(own.is_empty());
    }

    #[test]
    fn broadcasts_of_two_cores_queue_at_one_server() {
        let mut dvm = Dvm::default();
        let (mut first, mut second) = (Outstanding::default(), Outstanding::default());
        for _ in 0..20 {
            first.issue(Cycles::ZERO);
            second.issue(Cycles::ZERO);
        }
        let alone = dvm.synchronise(&timing(64), &mut first, Cycles::ZERO);
        let queued = dvm.synchronise(&timing(64), &mut second, Cycles::ZERO);
        assert_eq!(alone, Cycles::new(20 * 10 + 5 + 100));
        assert_eq!(queued, Cycles::new(2 * (20 * 10 + 5) + 100));
    }

    #[test]
    fn a_narrow_window_serialises_latency_too() {
        let mut dvm = Dvm::default();
        let mut own = Outstanding::default();
        for _ in 0..10 {
            own.issue(Cycles::ZERO);
        }
        let done = dvm.synchronise(&timing(1), &mut own, Cycles::ZERO);
        // Nine times until the message before is complete, then the last, then the sync behind it.
        assert_eq!(done, Cycles::new(10 * (100 + 10) + 5));
    }

    #[test]
    fn constant_times_give_the_bound_of_a_closed_queue() {
        // N cores think Z, then broadcast once and wait. Throughput is min(N/(Z+S), 1/S).
        let timing = DvmTiming {
            latency: Cycles::ZERO,
            service: Cycles::new(10),
            sync: Cycles::ZERO,
            window: 1,
        };
        let think = Cycles::new(90);
        for cores in [1_u64, 5, 10, 20] {
            let mut dvm = Dvm::default();
            let mut clocks = vec![Cycles::ZERO; usize::try_from(cores).unwrap_or(1)];
            let mut rounds = 0_u64;
            let horizon = Cycles::new(100_000);
            while let Some(next) = clocks
                .iter()
                .copied()
                .enumerate()
                .min_by_key(|c| (c.1, c.0))
                && next.1 < horizon
            {
                let mut own = Outstanding::default();
                own.issue(next.1);
                clocks[next.0] = dvm.synchronise(&timing, &mut own, next.1) + think;
                rounds += 1;
            }
            let expected = (cores * 100_000 / 100).min(100_000 / 10);
            assert!(rounds.abs_diff(expected) <= 2 * cores, "{cores}: {rounds}");
        }
    }
}
