use super::*;

const LEVEL: Axis = Axis {
    key: "level",
    about: "table level that is moved",
    kind: AxisKind::Choice(&[("pte", ""), ("pmd", ""), ("pud", "")]),
    default: "pmd",
    arch: None,
};
const SIZE: Axis = Axis {
    key: "size",
    about: "bytes moved",
    kind: AxisKind::Size {
        min: 1024,
        max: 1 << 34,
        unit: 1024,
    },
    default: "1G",
    arch: None,
};
const CPUS: Axis = Axis {
    key: "cpus",
    about: "processors",
    kind: AxisKind::Count { min: 1, max: 96 },
    default: "1",
    arch: None,
};
const AXES: [&Axis; 3] = [&LEVEL, &SIZE, &CPUS];

fn refusal(word: &str) -> String {
    parse_words(&AXES, &[word]).unwrap_err().to_string()
}

#[test]
fn lists_are_crossed_and_the_first_word_varies_slowest() {
    let settings = parse_words(&AXES, &["cpus=1,8", "level=pud,pte"]).unwrap();
    let points: Vec<_> = cross(&settings).iter().map(ToString::to_string).collect();
    assert_eq!(
        points,
        [
            "cpus=1 level=pud size=1G",
            "cpus=1 level=pte size=1G",
            "cpus=8 level=pud size=1G",
            "cpus=8 level=pte size=1G",
        ]
    );
}

#[test]
fn unnamed_axes_stand_at_their_defaults() {
    let none: [&str; 0] = [];
    let points = cross(&parse_words(&AXES, &none).unwrap());
    assert_eq!(points.len(), 1);
    assert_eq!(points[0].to_string(), "level=pmd size=1G cpus=1");
}

#[test]
fn sizes_reach_the_guest_in_bytes() {
    let points = cross(&parse_words(&AXES, &["size=4k,6K,2M,1073741824"]).unwrap());
    let sizes: Vec<_> = points
        .iter()
        .filter_map(|it| it.get("size"))
        .map(|it| (it.text(), it.param()))
        .collect();
    assert_eq!(
        sizes,
        [
            ("4K", "4096"),
            ("6K", "6144"),
            ("2M", "2097152"),
            ("1G", "1073741824")
        ]
    );
}

#[test]
fn a_fractional_size_is_refused_with_its_whole_spelling() {
    assert_eq!(
        refusal("size=1.5K"),
        "axis `size`: `1.5K` is not a size: expected a whole number with or without \
         K, M, G or T, from 1K to 16G; did you mean `1536`?"
    );
    assert!(refusal("size=0.5G").ends_with("did you mean `512M`?"));
    assert!(!refusal("size=1.0001K").contains("did you mean"));
    assert!(!refusal("size=0.5K").contains("did you mean"));
}

#[test]
fn malformed_sizes_are_refused() {
    for size in [
        "K", "1GB", "-4K", "+4K", "1 G", "1_000", "0x1000", "4KK", "é", "1é",
    ] {
        assert!(
            refusal(&format!("size={size}")).contains("is not a size"),
            "{size}"
        );
    }
    assert!(refusal("size=99999999999999999999").contains("is not a size"));
    assert!(refusal("size=16777216T").contains("is not a size"));
}

#[test]
fn out_of_range_numbers_name_the_range() {
    assert_eq!(
        refusal("cpus=0"),
        "axis `cpus`: 0 is out of range: expected 1 to 96"
    );
    assert_eq!(
        refusal("size=32G"),
        "axis `size`: 32G is out of range: expected 1K to 16G"
    );
}

#[test]
fn sizes_are_whole_units() {
    assert_eq!(
        refusal("size=5000"),
        "axis `size`: 5000 is no multiple of 1K; did you mean `5K`?"
    );
}

#[test]
fn slips_get_a_suggestion_and_strangers_do_not() {
    assert_eq!(
        refusal("levl=pte"),
        "unknown axis `levl`: expected level, size or cpus; did you mean `level`?"
    );
    assert_eq!(
        refusal("level=pdm"),
        "axis `level`: unknown value `pdm`: expected pte, pmd or pud; did you mean `pmd`?"
    );
    assert!(!refusal("xyzzy=1").contains("did you mean"));
}

#[test]
fn words_must_be_settings() {
    assert_eq!(
        refusal("pmd"),
        "`pmd` is not a setting: expected key=value[,value..], such as level=pmd"
    );
    assert!(refusal("level=").contains("a value is empty"));
    assert!(refusal("level=pte,,pmd").contains("a value is empty"));
    assert!(refusal("level=pte,pte").contains("`pte` is given twice"));
    let twice = parse_words(&AXES, &["level=pte", "level=pmd"]).unwrap_err();
    assert!(twice.to_string().contains("`level` is given twice"));
}

#[test]
fn equal_sizes_written_differently_are_the_same_value() {
    assert!(refusal("size=1M,1024K").contains("`1M` is given twice"));
}

#[test]
fn open_words_are_the_guests_own() {
    let settings = parse_open(&[&CPUS], &["rounds=5,2K", "mode=fast"]).unwrap();
    let points = cross(&settings);
    assert_eq!(points.len(), 2);
    assert_eq!(points[1].to_string(), "rounds=2K mode=fast cpus=1");
    assert_eq!(points[1].params()[0].1, "2048");
    let zero = parse_open(&[&CPUS], &["cpus=0"]).unwrap_err();
    assert!(zero.to_string().contains("0 is out of range"));
    assert!(parse_open(&[&CPUS], &["mode="]).is_err());
    assert!(parse_open(&[&CPUS], &["=5"]).is_err());
}

#[test]
fn a_single_value_may_not_be_a_list() {
    assert!(parse_single(&AXES, "level=pmd").is_ok());
    assert_eq!(
        parse_single(&AXES, "level=pmd,pud"),
        Err(GrammarError::ListNotAllowed {
            key: "level".to_owned()
        })
    );
}
