//! Axes that belong to the machine and not to a guest: the architecture's optional features, and,
//! for guest programs that describe no axes, the number of CPUs and the size of RAM.

use mmuscope_guest::{ArchName, Axis, AxisKind};
use mmuscope_models::profile::{Feature, Features};

use super::grammar::Point;

/// The value of a feature's axis that leaves it as the profile has it.
pub const AS_PROFILE: &str = "profile";

const STATES: AxisKind = AxisKind::Choice(&[
    (AS_PROFILE, "as the profile says"),
    ("on", "the guest is told of it"),
    ("off", "the guest is not told of it"),
]);

macro_rules! feature_axes {
    ($($feature:ident $arch:ident $about:literal;)*) => {
        const FEATURES: &[(Feature, Axis)] = &[$((
            Feature::$feature,
            Axis {
                key: Feature::$feature.name(),
                about: $about,
                kind: STATES,
                default: AS_PROFILE,
                arch: Some(ArchName::$arch),
            },
        ),)*];
    };
}

feature_axes! {
    TlbiRange Aarch64 "range forms of TLBI (FEAT_TLBIRANGE)";
    Ttl Aarch64 "level hint in TLBI (FEAT_TTL)";
    RepeatTlbi Aarch64 "erratum: TLBI and DSB are repeated once per synchronisation";
    Hafdbs Aarch64 "hardware sets accessed and dirty state (FEAT_HAFDBS)";
    Bbml2NoAbort Aarch64 "FEAT_BBML2 without TLB conflict aborts";
    Pcid X86_64 "process-context identifiers";
    Invpcid X86_64 "the INVPCID instruction";
    Pti X86_64 "page-table isolation of user and kernel";
    Pge X86_64 "global pages";
    La57 X86_64 "57-bit linear addresses";
}

/// The CPUs of a machine that runs a guest program.
pub const CPUS: Axis = Axis {
    key: "cpus",
    about: "CPUs of the machine",
    kind: AxisKind::Count { min: 1, max: 256 },
    default: "1",
    arch: None,
};

/// The RAM of a machine that runs a guest program.
pub const RAM: Axis = Axis {
    key: "ram",
    about: "bytes of RAM, whole 2 MiB",
    kind: AxisKind::Size {
        min: 2 << 20,
        max: 128 << 30,
        unit: 2 << 20,
    },
    default: "256M",
    arch: None,
};

/// An axis for each optional feature.
pub fn features() -> impl Iterator<Item = &'static Axis> {
    FEATURES.iter().map(|(_, axis)| axis)
}

/// Whether `key` is the axis of a feature.
pub fn is_feature(key: &str) -> bool {
    features().any(|axis| axis.key == key)
}

/// The features of a machine at `point`.
pub fn apply(profile: Features, point: &Point) -> Features {
    FEATURES.iter().fold(profile, |set, (feature, axis)| {
        match point.get(axis.key).map(super::grammar::Value::text) {
            Some("on") => set.with(*feature, true),
            Some("off") => set.with(*feature, false),
            _ => set,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::grammar::{cross, parse_words};
    use super::*;

    #[test]
    fn every_feature_has_an_axis() {
        assert_eq!(FEATURES.len(), Feature::ALL.len());
    }

    #[test]
    fn a_feature_is_switched_or_left_alone() {
        let axes: Vec<_> = features().collect();
        let words = ["tlbirange=on", "ttl=off"];
        let points = cross(&parse_words(&axes, &words).unwrap());
        let profile = Features::from_iter([Feature::Ttl, Feature::Hafdbs]);
        let at_point: Vec<_> = apply(profile, &points[0]).iter().collect();
        assert_eq!(at_point, [Feature::TlbiRange, Feature::Hafdbs]);
    }
}
