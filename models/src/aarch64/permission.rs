//! Who may do what through a translation (Arm ARM D8.4, direct permissions).

use super::Context;
use super::descriptor::{Attrs, Permissions};
use super::registers::Sctlr;
use super::stage2::Stage2Denials;
use crate::access::{AccessKind, Privilege, Rights};

/// What stage 1 lets `privilege` do. `write` is true for a clean page too: a store is permitted, it has
/// only to be recorded first.
pub(super) fn permitted(attrs: &Attrs, context: &Context, privilege: Privilege) -> Rights {
    let sctlr = Sctlr::new(context.sctlr);
    let own = attrs.permissions;
    if own.contains(Permissions::FLAT) {
        return Rights {
            read: true,
            write: true,
            execute: true,
        };
    }
    let writable = own.contains(Permissions::WRITE);
    let el0_write = own.contains(Permissions::EL0) && writable;
    let el0_never = own.contains(Permissions::UXN) || sctlr.write_implies_xn() && el0_write;
    match privilege {
        Privilege::User => Rights {
            read: own.contains(Permissions::EL0),
            write: el0_write,
            execute: !el0_never,
        },
        Privilege::Supervisor => {
            let shut_out = context.pan
                && (own.contains(Permissions::EL0)
                    || sctlr.enhanced_pan() && !own.contains(Permissions::UXN));
            // What EL0 can write, EL1 never executes, whatever PXN and WXN say.
            let never =
                own.contains(Permissions::PXN) || el0_write || sctlr.write_implies_xn() && writable;
            Rights {
                read: !shut_out,
                write: writable && !shut_out,
                execute: !never,
            }
        }
    }
}

/// What `privilege` may do without a change of the descriptor.
pub(super) fn rights(attrs: &Attrs, context: &Context, privilege: Privilege) -> Rights {
    let mut rights = permitted(attrs, context, privilege);
    let host = attrs.stage2.permitted(privilege);
    rights.read &= host.read;
    rights.write &= host.write && !needs_record(attrs);
    rights.execute &= host.execute;
    rights
}

/// Whether a store must first be recorded in a descriptor of either stage.
pub(super) fn needs_record(attrs: &Attrs) -> bool {
    attrs.permissions.contains(Permissions::CLEAN) || attrs.stage2.contains(Stage2Denials::CLEAN)
}

/// Whether `rights` include `kind`.
pub(super) const fn includes(rights: Rights, kind: AccessKind) -> bool {
    match kind {
        AccessKind::Load => rights.read,
        AccessKind::Store => rights.write,
        AccessKind::Fetch => rights.execute,
    }
}
