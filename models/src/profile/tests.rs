//! Tests of profiles.

use super::*;

#[test]
fn every_builtin_profile_is_valid_and_reports_its_own_name() {
    for name in Profile::names() {
        let profile = Profile::builtin(name).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(profile.name(), name);
        assert!(profile.constants().len() > 50, "{name}");
        let again = Profile::parse(&profile.to_toml()).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(again.hash(), profile.hash());
    }
}

#[test]
fn hashes_differ_between_profiles_and_do_not_depend_on_sources() {
    let mut hashes: Vec<_> = Profile::names()
        .into_iter()
        .filter_map(|name| Profile::builtin(name).ok())
        .map(|profile| profile.hash())
        .collect();
    let count = hashes.len();
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), count);
    let text = builtin::text("cortex-a76").unwrap_or_default();
    let reworded = text.replace("TRM A5.1", "Technical Reference Manual, A5.1");
    assert_eq!(
        Profile::parse(text).map(|p| p.hash()),
        Profile::parse(&reworded).map(|p| p.hash())
    );
}

#[test]
fn an_override_changes_price_hash_and_quality() {
    let mut profile = Profile::builtin("skylake-sp").unwrap();
    let before = profile.hash();
    profile.set("cost.cycles.invlpg", "300").unwrap();
    assert_eq!(profile.costs().of(Operation::Invlpg), Cycles::new(300));
    assert_ne!(profile.hash(), before);
    let constants = profile.constants();
    let invlpg = constants.iter().find(|c| c.key == "cost.cycles.invlpg");
    assert_eq!(invlpg.map(|c| c.quality), Some(Quality::Estimated));
    profile.set("features.pcid", "false").unwrap();
    assert!(!profile.features().contains(Feature::Pcid));
}

/// The message that a changed text gives.
fn complaint(name: &str, from: &str, to: &str) -> String {
    let text = builtin::text(name).unwrap();
    assert!(text.contains(from), "{from}");
    let error = Profile::parse(&text.replacen(from, to, 1)).unwrap_err();
    let message = error.to_string();
    assert!(!message.contains('\n'), "{message}");
    message
}

#[test]
fn complaints_name_key_found_and_expected() {
    let a76 = |from, to| complaint("cortex-a76", from, to);
    assert_eq!(
        a76("ways = { value = 5,", "ways = { value = 7,"),
        "profile `cortex-a76`: `tlb.l2.all.ways` is 7, \
         expected a divisor of tlb.l2.all.entries (1280)"
    );
    assert_eq!(
        a76(
            "latency_cycles = { value = 10.0",
            "latency_cycles = { value = 3.0"
        ),
        "profile `cortex-a76`: `cache.l2.latency_cycles` is 3, \
         expected more than cache.l1d.latency_cycles (4)"
    );
    assert_eq!(
        a76("cpus = { value = 8,", "cpus = { value = 0,"),
        "profile `cortex-a76`: `topology.cpus` is 0, expected 1 to 1024"
    );
    assert_eq!(
        a76("isb = {", "# isb = {"),
        "profile `cortex-a76`: `cost.cycles.isb` is missing, \
         expected a price in cost.cycles.isb or cost.ns.isb"
    );
    assert_eq!(
        a76("source = \"FEAT_HAFDBS, Armv8.1\"", "source = \" \""),
        "profile `cortex-a76`: `features.hafdbs.source` is empty, \
         expected where the value comes from"
    );
    assert_eq!(
        a76("arch = \"aarch64\"", "arch = \"arm\""),
        "profile `cortex-a76`: `arch` is arm, expected aarch64 or x86_64"
    );
}

#[test]
fn unknown_and_mistyped_keys_are_named() {
    let message = complaint("cortex-a76", "[clock]\nghz", "[clock]\nmhz");
    assert!(
        message.contains("mhz") && message.contains("ghz"),
        "{message}"
    );
    let message = complaint("cortex-a76", "value = 2.84", "value = \"fast\"");
    assert!(message.contains("clock.ghz"), "{message}");
    let message = complaint("cortex-a76", "\"512M\"]", "\"500M\"]");
    assert!(message.contains("500M"), "{message}");
    let message = complaint(
        "cortex-a76",
        "quality = \"recalled\"",
        "quality = \"certain\"",
    );
    assert!(
        message.contains("certain") && message.contains("recalled"),
        "{message}"
    );
    let message = complaint("cortex-a76", "name = ", "name = = ");
    assert!(message.contains("line"), "{message}");
}

#[test]
fn overrides_of_nothing_are_refused_and_change_nothing() {
    let mut profile = Profile::builtin("cortex-a76").unwrap();
    let before = profile.clone();
    for path in ["cost.cycles.nothing", "tlb", "", "name.x", "tlb.l2.all"] {
        assert!(matches!(
            profile.set(path, "1"),
            Err(ProfileError::UnknownKey { .. })
        ));
    }
    assert!(profile.set("tlb.l2.all.ways", "7").is_err());
    assert!(profile.set("tlb.l2.all.ways", "many").is_err());
    assert_eq!(profile, before);
}

#[test]
fn a_profile_that_extends_another_changes_only_what_it_names() {
    let text = "name = \"half\"\nextends = \"cortex-a76\"\n[topology]\n\
                cpus = { value = 4, source = \"test\", quality = \"estimated\" }\n";
    let profile = Profile::parse(text).unwrap();
    assert_eq!((profile.name(), profile.cpus()), ("half", 4));
    let parent = Profile::builtin("cortex-a76").unwrap();
    assert_eq!(profile.costs(), parent.costs());
    let error = Profile::parse("name = \"x\"\nextends = \"nothing\"").unwrap_err();
    assert!(error.to_string().contains("cortex-a76"), "{error}");
}

#[test]
fn a_price_replaces_the_price_below_it_in_whichever_unit() {
    let text = "name = \"x\"\nextends = \"cortex-a76\"\n[cost.cycles]\n\
                isb = { value = 30.0, source = \"test\", quality = \"estimated\" }\n";
    let profile = Profile::parse(text).unwrap();
    assert_eq!(profile.costs().of(Operation::Isb), Cycles::new(30));
    let parent = Profile::builtin("cortex-a76").unwrap();
    let dsb = |it: &Profile| it.costs().of(Operation::Dsb);
    assert_eq!(dsb(&profile), dsb(&parent));
}

#[test]
fn a_skeleton_is_its_parent_and_can_be_uncommented() {
    for parent in Profile::names() {
        let text = Profile::skeleton("new", parent).unwrap();
        let profile = Profile::parse(&text).unwrap();
        let of_parent = Profile::builtin(parent).unwrap();
        assert_eq!(
            (profile.name(), profile.costs()),
            ("new", of_parent.costs())
        );
        // Without its marks the text says the same: every figure of the parent is in it.
        let table = |line: &str| line.starts_with("# [");
        let figure = |line: &str| line.starts_with("# ") && line.contains(" = ");
        let whole: Vec<&str> = text
            .lines()
            .map(|line| {
                if table(line) || figure(line) {
                    &line[2..]
                } else {
                    line
                }
            })
            .collect();
        let whole = Profile::parse(&whole.join("\n")).unwrap();
        assert_eq!(whole.constants(), of_parent.constants(), "{parent}");
    }
    assert!(Profile::skeleton("New Machine", "zen3").is_err());
    assert!(Profile::skeleton("new", "zen9").is_err());
}

#[test]
fn errors_know_the_path_of_what_is_wrong() {
    let text = builtin::text("cortex-a76").unwrap();
    let key = |from: &str, to: &str| {
        let error = Profile::parse(&text.replacen(from, to, 1)).unwrap_err();
        error.key().map(str::to_owned)
    };
    assert_eq!(
        key("[clock]\nghz", "[clock]\nmhz").as_deref(),
        Some("clock.mhz")
    );
    assert_eq!(key("isb = {", "isbb = {").as_deref(), Some("cost.ns.isbb"));
    assert_eq!(
        key("value = 2.84", "value = 99.0").as_deref(),
        Some("clock.ghz")
    );
    assert_eq!(key("name = ", "name = = "), None);
}

#[test]
fn the_page_about_profiles_names_every_key() {
    let page = include_str!("../../../docs/profiles.md");
    let quoted =
        |word: &str| page.contains(&format!("`{word}`")) || page.contains(&format!(".{word}`"));
    for operation in Operation::ALL {
        assert!(quoted(operation.key()), "{}", operation.key());
    }
    for feature in Feature::ALL {
        assert!(quoted(feature.name()), "{}", feature.name());
    }
    for category in crate::cost::Category::ALL {
        assert!(quoted(category.name()), "{}", category.name());
    }
    for quality in Quality::ALL {
        assert!(quoted(&quality.to_string()), "{quality}");
    }
    // Keys of all built-in profiles; names of arrays and units of prices are free.
    for constant in Profile::names()
        .into_iter()
        .flat_map(|it| Profile::builtin(it).unwrap().constants())
    {
        let last = constant
            .key
            .rsplit('.')
            .next()
            .unwrap_or_default()
            .to_owned();
        assert!(quoted(&last), "{}", constant.key);
    }
}

#[test]
fn settings_are_what_has_no_source() {
    let profile = Profile::builtin("cortex-a76").unwrap();
    let settings = profile.settings();
    let value = |key: &str| {
        settings
            .iter()
            .find(|it| it.0 == key)
            .map(|it| it.1.as_str())
    };
    assert_eq!(value("cache.walker_reads"), Some("l2"));
    assert_eq!(value("interconnect.dvm_domain"), Some("machine"));
    assert!(value("tlb.l1d.all.sizes").is_some_and(|it| it.contains("\"512M\"")));
    assert_eq!((value("name"), value("clock.ghz")), (None, None));
}

#[test]
fn replacement_must_fit_the_ways() {
    let text = |ways: usize, replacement: &str, more: &str| {
        let number = |key: &str, value: &str| {
            format!("{key} = {{ value = {value}, source = \"a test\", quality = \"estimated\" }}\n")
        };
        let mut text = "name = \"mine\"\nextends = \"cortex-a76\"\n[tlb.l2.all]\n".to_owned();
        text += &number("ways", &ways.to_string());
        text += &number("replacement", replacement);
        text + more
    };
    let seed = "seed = { value = 7, source = \"a test\", quality = \"estimated\" }";
    assert!(Profile::parse(&text(4, "\"tree-plru\"", "")).is_ok());
    assert!(Profile::parse(&text(5, "\"random\"", seed)).is_ok());
    let odd = Profile::parse(&text(5, "\"tree-plru\"", "")).unwrap_err();
    assert_eq!(odd.key(), Some("tlb.l2.all.ways"));
    let seeded = Profile::parse(&text(4, "\"lru\"", seed)).unwrap_err();
    assert_eq!(seeded.key(), Some("tlb.l2.all.seed"));
}
