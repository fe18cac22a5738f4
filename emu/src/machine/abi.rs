//! Hypercalls: what the guest asks of the host (`docs/guest-abi.md`). They take no guest time.

use mmuscope_models::addr::Pa;
use mmuscope_models::cost::Cycles;

use super::{Account, GuestExit, Machine, MachineError, Region, RegionCore, schedule};
use crate::arch::EmuArch;

const EXIT: u16 = 0;
const CONSOLE: u16 = 1;
const REGION_BEGIN: u16 = 2;
const REGION_END: u16 = 3;
const RESULT: u16 = 4;
const START_CPU: u16 = 5;
const PANIC: u16 = 6;
const UNSAFE: u16 = 7;

/// Console output beyond this is dropped: a guest in a loop must not fill the host.
const CONSOLE_LIMIT: usize = 16 << 20;

/// What the guest has told so far.
#[derive(Debug, Default)]
pub(super) struct State {
    pub console: String,
    pub regions: Vec<Region>,
    pub results: Vec<(String, String)>,
    pub unsafe_reports: Vec<String>,
    open: Vec<OpenRegion>,
}

#[derive(Debug)]
struct OpenRegion {
    name: String,
    at_start: Vec<Snapshot>,
}

#[derive(Debug)]
struct Snapshot {
    account: Account,
    clock: Cycles,
}

impl State {
    /// The region last entered.
    pub fn region(&self) -> Option<&str> {
        self.open.last().map(|open| open.name.as_str())
    }
}

impl<A: EmuArch + 'static> Machine<A> {
    /// Serves a hypercall of core `index`.
    pub(super) fn hypercall(
        &mut self,
        index: usize,
        number: u16,
    ) -> Result<Option<GuestExit>, MachineError> {
        let arguments =
            A::arguments(self.cores[index].attached.engine()).map_err(MachineError::Engine)?;
        let refuse = |reason: String| MachineError::Hypercall {
            core: index,
            number,
            arguments,
            reason,
        };
        let [first, second, third, _] = arguments;
        let text = |pa, len| {
            let text = self.ram.text(Pa::new(pa), len);
            text.ok_or_else(|| refuse("the text is outside RAM or longer than 64 KiB".to_owned()))
        };
        match number {
            EXIT => return Ok(Some(GuestExit::Code(first))),
            CONSOLE => {
                let text = text(first, second)?;
                if self.abi.console.len() + text.len() <= CONSOLE_LIMIT {
                    self.abi.console.push_str(&text);
                }
            }
            REGION_BEGIN => {
                let name = text(first, second)?;
                let at_start = self.snapshot();
                self.abi.open.push(OpenRegion { name, at_start });
            }
            REGION_END => {
                let name = text(first, second)?;
                let open = &mut self.abi.open;
                let Some(at) = open.iter().rposition(|open| open.name == name) else {
                    return Err(refuse(format!("region `{name}` has not begun")));
                };
                let open = open.remove(at);
                self.end_region(open);
            }
            RESULT => {
                let key = text(first, second)?;
                self.abi.results.push((key, third.to_string()));
            }
            START_CPU => {
                let target = usize::try_from(first).unwrap_or(usize::MAX);
                self.start_secondary(index, target, second, third).map_err(
                    |reason| match reason {
                        Some(reason) => refuse(reason),
                        None => refuse("the engine refused".to_owned()),
                    },
                )?;
            }
            PANIC => return Ok(Some(GuestExit::Panic(text(first, second)?))),
            UNSAFE => {
                let report = text(first, second)?;
                self.abi.unsafe_reports.push(report);
            }
            _ => return Err(refuse("there is no such call".to_owned())),
        }
        Ok(None)
    }

    /// Starts a core that is off, at the caller's time.
    fn start_secondary(
        &mut self,
        caller: usize,
        target: usize,
        entry: u64,
        argument: u64,
    ) -> Result<(), Option<String>> {
        match self.cores.get(target) {
            None => return Err(Some(format!("there is no core {target}"))),
            Some(core) if core.state != schedule::State::Off => {
                return Err(Some(format!("core {target} is already running")));
            }
            Some(_) => {}
        }
        let now = self.cores[caller].attached.now();
        self.start_core(target, entry, argument).map_err(|_| None)?;
        let now = now + self.cores[target].attached.start_offset();
        let core = &self.cores[target];
        core.attached
            .handle()
            .with(|vcpu, shared| shared.wait_until(vcpu.core, now));
        Ok(())
    }

    fn snapshot(&self) -> Vec<Snapshot> {
        let cores = self.cores.iter();
        cores
            .map(|core| Snapshot {
                account: core.attached.account(),
                clock: core.attached.clock(),
            })
            .collect()
    }

    fn end_region(&mut self, open: OpenRegion) {
        let now = self.snapshot();
        let pairs = open.at_start.into_iter().zip(now);
        let per_core = pairs.map(|(start, end)| RegionCore {
            account: end.account.since(&start.account),
            start: start.clock,
            end: end.clock,
        });
        self.abi.regions.push(Region {
            name: open.name,
            per_core: per_core.collect(),
        });
    }
}
