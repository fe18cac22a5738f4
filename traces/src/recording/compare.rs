//! What a replayed system answered, against the recorded physical addresses.

use mmuscope_models::observer::Observer;

use super::arch::{RecordedArch, UnusableRecord};
use super::record::{Event, Record};
use super::replay::Replay;

/// Answers to data accesses, counted.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Compared {
    /// The recorded address.
    pub equal: u64,
    /// Accesses that faulted and then, tried again, had an answer: the modelled machine found a
    /// stale entry where the recorded one did not.
    pub spurious: u64,
    /// Another address, or a fault that stays.
    pub wrong: u64,
    /// The first of these.
    pub first: Option<String>,
}

impl Compared {
    /// Feeds `record` to `replay`, and compares the answer if it is a data access.
    ///
    /// # Errors
    /// As [`Replay::step`].
    pub fn step<A: RecordedArch, O: Observer<A>>(
        &mut self,
        replay: &mut Replay<A, O>,
        record: &Record,
    ) -> Result<(), UnusableRecord> {
        let mut answer = replay.step(record)?;
        let (Event::Load(access) | Event::Store(access)) = &record.event else {
            return Ok(());
        };
        if matches!(answer, Some(Err(_))) {
            self.spurious += 1;
            answer = replay.step(record)?;
        }
        match answer {
            None => {}
            Some(Ok(translation)) if translation.pa == access.pa => self.equal += 1,
            Some(answer) => {
                self.wrong += 1;
                self.first.get_or_insert_with(|| match answer {
                    Ok(translation) => format!(
                        "{:?} is answered with {:?}, recorded is {:?}",
                        access.va, translation.pa, access.pa
                    ),
                    Err(_) => format!("{:?} faults, recorded is {:?}", access.va, access.pa),
                });
            }
        }
        Ok(())
    }
}
