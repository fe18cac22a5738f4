//! Known deviations of QEMU 7.2 from the architecture, each stated as the answer that QEMU gives
//! instead.

use mmuscope_models::access::Privilege;
use mmuscope_models::x86::ErrorCode;

use super::expect::{Expected, Question};
use super::mailbox::Outcome;

/// A deviation.
pub struct Quirk {
    /// The manual's rule, and what QEMU does.
    pub rule: &'static str,
    /// QEMU's answer, where the architecture's is the one expected; `None` if they are the same.
    pub instead: fn(&Question, &Expected, Outcome) -> Option<Outcome>,
}

/// The deviations, applied in this order.
pub const QUIRKS: &[Quirk] = &[
    Quirk {
        rule: "#PF error code: RSVD is set only together with P (SDM 4.7); QEMU clears P",
        instead: reserved_without_present,
    },
    Quirk {
        rule: "#PF error code: PK is set whenever the key registers disallow the data access (SDM \
               4.7); QEMU refuses user accesses to supervisor addresses before it looks at keys",
        instead: key_of_supervisor_address,
    },
];

/// Clears `flag` in the error code of a page fault.
fn without(outcome: Outcome, flag: ErrorCode) -> Outcome {
    Outcome {
        error: outcome.error & !u64::from(flag.bits()),
        ..outcome
    }
}

fn has(outcome: Outcome, flag: ErrorCode) -> bool {
    outcome.vector == 14 && outcome.error & u64::from(flag.bits()) != 0
}

fn reserved_without_present(_: &Question, _: &Expected, outcome: Outcome) -> Option<Outcome> {
    has(outcome, ErrorCode::RESERVED).then(|| without(outcome, ErrorCode::PRESENT))
}

fn key_of_supervisor_address(
    question: &Question,
    expected: &Expected,
    outcome: Outcome,
) -> Option<Outcome> {
    let supervisor_address = expected.read.iter().any(|read| read.raw & 1 << 2 == 0);
    let applies = question.access.privilege == Privilege::User
        && supervisor_address
        && has(outcome, ErrorCode::KEY);
    applies.then(|| without(outcome, ErrorCode::KEY))
}
