//! Who may do what through a translation (Intel SDM vol. 3A 4.6).

use super::Context;
use super::entry::{Attrs, TableAttrs};
use super::fault::{ErrorCode, Fault};
use super::registers::{Cr0, Cr4, Efer, KeyRights};
use crate::access::{Access, AccessKind, Privilege, Rights};

/// What `privilege` may do. `write` is true for a clean page too.
pub(super) fn permitted(attrs: &Attrs, context: &Context, privilege: Privilege) -> Rights {
    let by_entries = match privilege {
        Privilege::User => user(attrs.denied),
        Privilege::Supervisor => supervisor(attrs.denied, context),
    };
    let by_key = by_key(attrs, context, privilege);
    Rights {
        read: by_entries.read && by_key.read,
        write: by_entries.write && by_key.write,
        execute: by_entries.execute,
    }
}

/// What `privilege` may do without a change of an entry, the host's rules included.
pub(super) fn rights(attrs: &Attrs, context: &Context, privilege: Privilege) -> Rights {
    let by_guest = permitted(attrs, context, privilege);
    let by_host = host(attrs);
    Rights {
        read: by_guest.read && by_host.read,
        write: by_guest.write && by_host.write && attrs.dirty,
        execute: by_guest.execute && by_host.execute,
    }
}

/// What the host lets the guest do with the page.
pub(super) fn host(attrs: &Attrs) -> Rights {
    let execute = if attrs.denied.contains(TableAttrs::SUPERVISOR) {
        TableAttrs::HOST_NO_EXECUTE
    } else {
        TableAttrs::HOST_NO_USER_EXECUTE
    };
    Rights {
        read: !attrs.denied.contains(TableAttrs::HOST_NO_READ),
        write: !attrs.denied.contains(TableAttrs::HOST_NO_WRITE),
        execute: !attrs.denied.contains(execute),
    }
}

/// Whether `rights` include `kind`.
pub(super) const fn includes(rights: Rights, kind: AccessKind) -> bool {
    match kind {
        AccessKind::Load => rights.read,
        AccessKind::Store => rights.write,
        AccessKind::Fetch => rights.execute,
    }
}

fn user(denied: TableAttrs) -> Rights {
    let reachable = !denied.contains(TableAttrs::SUPERVISOR);
    Rights {
        read: reachable,
        write: reachable && !denied.contains(TableAttrs::READ_ONLY),
        execute: reachable && !denied.contains(TableAttrs::NO_EXECUTE),
    }
}

fn supervisor(denied: TableAttrs, context: &Context) -> Rights {
    let cr4 = Cr4::from_bits_truncate(context.cr4);
    let user_page = !denied.contains(TableAttrs::SUPERVISOR);
    let read = !(user_page && cr4.contains(Cr4::SMAP) && !context.ac);
    let write_protected = denied.contains(TableAttrs::READ_ONLY) && write_protect(context);
    let fetch_denied =
        denied.contains(TableAttrs::NO_EXECUTE) || user_page && cr4.contains(Cr4::SMEP);
    Rights {
        read,
        write: read && !write_protected,
        execute: !fetch_denied,
    }
}

fn write_protect(context: &Context) -> bool {
    Cr0::from_bits_truncate(context.cr0).contains(Cr0::WP)
}

/// What the page's protection key leaves: PKRU for user pages, IA32_PKRS for supervisor pages.
/// Keys never concern fetches.
fn by_key(attrs: &Attrs, context: &Context, privilege: Privilege) -> Rights {
    let cr4 = Cr4::from_bits_truncate(context.cr4);
    let (enabled, register) = if attrs.denied.contains(TableAttrs::SUPERVISOR) {
        (Cr4::PKS, context.pkrs)
    } else {
        (Cr4::PKE, context.pkru)
    };
    if !cr4.contains(enabled) {
        return Rights {
            read: true,
            write: true,
            execute: true,
        };
    }
    let key = KeyRights::of(register, attrs.key);
    let obeys_write_disable = privilege == Privilege::User || write_protect(context);
    let read = !key.access_disabled;
    Rights {
        read,
        write: read && !(key.write_disabled && obeys_write_disable),
        execute: true,
    }
}

/// The page fault of an access that `attrs` do not permit.
pub(super) fn violation(attrs: &Attrs, context: &Context, access: &Access) -> Fault {
    let mut code = ErrorCode::PRESENT | access_bits(context, access);
    let by_key = by_key(attrs, context, access.privilege);
    code.set(ErrorCode::KEY, !includes(by_key, access.kind));
    Fault::PageFault { code }
}

/// The error-code bits that say what the access was.
pub(super) fn access_bits(context: &Context, access: &Access) -> ErrorCode {
    let fetch_reported = Efer::from_bits_truncate(context.efer).contains(Efer::NXE)
        || Cr4::from_bits_truncate(context.cr4).contains(Cr4::SMEP);
    let mut code = ErrorCode::empty();
    code.set(ErrorCode::WRITE, access.kind == AccessKind::Store);
    code.set(ErrorCode::USER, access.privilege == Privilege::User);
    code.set(
        ErrorCode::FETCH,
        access.kind == AccessKind::Fetch && fetch_reported,
    );
    code
}
