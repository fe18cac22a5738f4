//! Which profile describes this machine, by what the kernel says about its processor.

/// The profile of the machine whose `/proc/cpuinfo` is `text`; `None` if none is close.
#[must_use]
pub fn profile_of(text: &str) -> Option<&'static str> {
    let field = |name: &str| field_of(text, name);
    let number = |name: &str| field(name).and_then(|it| it.parse::<u32>().ok());
    let flags = field("flags").unwrap_or_default();
    let has = |flag: &str| flags.split(' ').any(|it| it == flag);
    match field("vendor_id") {
        Some("GenuineIntel") if has("amx_tile") => Some(if has("hypervisor") {
            "sapphire-rapids-guest"
        } else {
            "sapphire-rapids"
        }),
        Some("GenuineIntel") if has("avx512_vbmi2") => Some("ice-lake-sp"),
        Some("GenuineIntel") if has("avx512f") => Some("skylake-sp"),
        Some("GenuineIntel") => match number("model")? {
            58 => Some("ivy-bridge"),
            63 => Some("haswell-ex"),
            _ => None,
        },
        Some("AuthenticAMD") => match (number("cpu family")?, number("model")?) {
            (23, 49..) => Some("zen2"),
            (25, 16..=31 | 96..=127 | 160..) => Some("zen4"),
            (25, _) if has("hypervisor") => Some("zen3-guest"),
            (25, _) => Some("zen3"),
            _ => None,
        },
        Some(_) => None,
        None => match (field("CPU implementer")?, field("CPU part")?) {
            ("0x41", "0xd05") => Some("cortex-a55"),
            ("0x41", "0xd0b") => Some("cortex-a76"),
            ("0x41", "0xd0c") => Some("neoverse-n1"),
            ("0x41", "0xd40") => Some("neoverse-v1"),
            ("0x41", "0xd4f") => Some("neoverse-v2"),
            ("0x61", "0x022" | "0x023") => Some("apple-m1"),
            _ => None,
        },
    }
}

/// What the processor is called.
#[must_use]
pub fn name_of(text: &str) -> &str {
    field_of(text, "model name").unwrap_or("a processor without a name")
}

/// The first field called `name`.
fn field_of<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

#[cfg(test)]
mod tests {
    use mmuscope_models::profile::Profile;

    use super::*;

    fn x86(vendor: &str, family: u32, model: u32, flags: &str) -> Option<&'static str> {
        profile_of(&format!(
            "processor\t: 0\nvendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\n\
             model name\t: x\nflags\t\t: fpu {flags}\n"
        ))
    }

    fn arm(implementer: &str, part: &str) -> Option<&'static str> {
        profile_of(&format!(
            "CPU implementer\t: {implementer}\nCPU part\t: {part}\n"
        ))
    }

    #[test]
    fn known_machines_have_a_profile_that_exists() {
        let found = [
            x86("GenuineIntel", 6, 167, "avx512f amx_tile hypervisor"),
            x86("GenuineIntel", 6, 143, "avx512f avx512_vbmi2 amx_tile"),
            x86("GenuineIntel", 6, 106, "avx512f avx512_vbmi2"),
            x86("GenuineIntel", 6, 85, "avx512f"),
            x86("GenuineIntel", 6, 58, ""),
            x86("AuthenticAMD", 25, 1, "hypervisor"),
            x86("AuthenticAMD", 25, 1, ""),
            x86("AuthenticAMD", 25, 17, ""),
            x86("AuthenticAMD", 23, 49, ""),
            arm("0x41", "0xd0c"),
            arm("0x61", "0x022"),
        ];
        let expected = [
            "sapphire-rapids-guest",
            "sapphire-rapids",
            "ice-lake-sp",
            "skylake-sp",
            "ivy-bridge",
            "zen3-guest",
            "zen3",
            "zen4",
            "zen2",
            "neoverse-n1",
            "apple-m1",
        ];
        assert_eq!(found.map(|it| it.unwrap_or("none")), expected);
        for name in expected {
            assert!(Profile::names().contains(&name), "{name}");
        }
    }

    #[test]
    fn what_is_not_known_has_none() {
        assert_eq!(x86("GenuineIntel", 6, 15, "sse2"), None);
        assert_eq!(x86("AuthenticAMD", 16, 2, ""), None);
        assert_eq!(x86("CentaurHauls", 6, 15, ""), None);
        assert_eq!(arm("0x48", "0xd01"), None);
        assert_eq!(profile_of(""), None);
    }
}
