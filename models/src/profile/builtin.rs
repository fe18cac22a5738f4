//! The profiles that come with the crate.

use super::ProfileError;

macro_rules! builtin {
    ($($name:literal),* $(,)?) => {
        /// Names and texts, in the order of listings.
        pub(super) const PROFILES: &[(&str, &str)] = &[
            $(($name, include_str!(concat!("../../profiles/", $name, ".toml"))),)*
        ];
    };
}

builtin![
    "apple-m1",
    "cortex-a55",
    "cortex-a76",
    "cortex-a76-norepeat",
    "haswell-ex",
    "ice-lake-sp",
    "ivy-bridge",
    "neoverse-n1",
    "neoverse-v1",
    "neoverse-v2",
    "qemu-amd64",
    "qemu-max",
    "qemu-n1",
    "sapphire-rapids",
    "sapphire-rapids-guest",
    "skylake-sp",
    "skylake-sp-4s",
    "zen2",
    "zen3",
    "zen3-guest",
    "zen4",
];

/// The text of a built-in profile.
pub(super) fn text(name: &str) -> Result<&'static str, ProfileError> {
    let found = PROFILES.iter().find(|(known, _)| *known == name);
    found.map(|(_, text)| *text).ok_or_else(|| {
        let known: Vec<_> = PROFILES.iter().map(|(known, _)| *known).collect();
        ProfileError::UnknownName {
            name: name.to_owned(),
            known: known.join(", "),
        }
    })
}
