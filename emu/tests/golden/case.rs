//! The golden file, row by row, and which rows describe the same call.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// The machine a row was counted on.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Run {
    /// `-cpu neoverse-n1`: no range operations, TLBIs repeated for an erratum.
    Arm64N1,
    /// `-cpu max` on arm64: range operations.
    Arm64Max,
    /// `-cpu max` on amd64: no PCID.
    Amd64,
    /// The same with two CPUs.
    Amd64Two,
}

/// How source and destination lie.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Align {
    /// Source 4 KiB, destination 8 KiB past a multiple of 2 MiB.
    Pte,
    /// Both 4 KiB past a multiple of 2 MiB.
    PteSame,
    /// Multiples of 2 MiB, not of 1 GiB.
    Pmd,
    /// Multiples of 1 GiB.
    Pud,
}

/// What another thread of the process does on the other CPU.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Threads {
    /// There is none.
    None,
    /// It spins in user mode.
    Spin,
    /// It sleeps; its CPU idles with the process's tables still loaded.
    Lazy,
}

/// The call that a row counts.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Key {
    pub run: Run,
    /// Bytes moved.
    pub size: u64,
    pub align: Align,
    /// Shared anonymous memory; else private.
    pub shared: bool,
    /// Folio size in bytes.
    pub folio: u64,
    pub threads: Threads,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} size={}M {:?} {} folio={}K threads={:?}",
            self.run,
            self.size >> 20,
            self.align,
            if self.shared { "shared" } else { "private" },
            self.folio >> 10,
            self.threads,
        )
    }
}

/// One row's counts by column name.
#[derive(Clone, Debug)]
pub struct Row(BTreeMap<String, u64>);

impl Row {
    /// The count in `column`; a column that the architecture does not have is empty, hence 0.
    pub fn get(&self, column: &str) -> u64 {
        match self.0.get(column) {
            Some(&count) => count,
            None => panic!("the golden file has no column {column}"),
        }
    }
}

/// A call and its rows, one per repetition.
#[derive(Clone, Debug)]
pub struct Case {
    pub key: Key,
    pub rows: Vec<Row>,
}

/// Every call of the golden file.
pub fn cases() -> Vec<Case> {
    let path =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../guest/tests/data/linux-mremap.csv");
    let mut reader = csv::Reader::from_path(path).unwrap();
    let mut cases: BTreeMap<Key, Vec<Row>> = BTreeMap::new();
    for record in reader.deserialize() {
        let fields: BTreeMap<String, String> = record.unwrap();
        let counts = fields
            .iter()
            .filter(|(column, _)| !is_text(column))
            .map(|(column, text)| (column.clone(), count(text)))
            .collect();
        cases.entry(key(&fields)).or_default().push(Row(counts));
    }
    let case = |(key, rows)| Case { key, rows };
    cases.into_iter().map(case).collect()
}

fn is_text(column: &str) -> bool {
    ["run", "kernel", "arch", "cpu", "roi", "thp", "threads"].contains(&column)
}

fn count(text: &str) -> u64 {
    if text.is_empty() {
        0
    } else {
        text.parse().unwrap()
    }
}

fn key(fields: &BTreeMap<String, String>) -> Key {
    let field = |name: &str| fields[name].as_str();
    let parameter = |name: &str| {
        let words = field("roi").split_whitespace();
        let mut pairs = words.filter_map(|word| word.split_once('='));
        pairs.find(|&(key, _)| key == name).unwrap().1
    };
    Key {
        run: match field("run") {
            "arm64-6.12-n1-s1" => Run::Arm64N1,
            "arm64-6.12-max-s1" => Run::Arm64Max,
            "amd64-6.12-max-s1" => Run::Amd64,
            "amd64-6.12-max-s2" => Run::Amd64Two,
            other => panic!("unknown run {other}"),
        },
        size: match parameter("size") {
            "4M" => 4 << 20,
            "64M" => 64 << 20,
            "1G" => 1 << 30,
            other => panic!("unknown size {other}"),
        },
        align: match parameter("align") {
            "pte" => Align::Pte,
            "ptesame" => Align::PteSame,
            "pmd" => Align::Pmd,
            "pud" => Align::Pud,
            other => panic!("unknown alignment {other}"),
        },
        shared: match parameter("map") {
            "priv" => false,
            "shared" => true,
            other => panic!("unknown mapping {other}"),
        },
        folio: match field("thp") {
            "never" => 4 << 10,
            "64K" => 64 << 10,
            "2M" => 2 << 20,
            other => panic!("unknown folio size {other}"),
        },
        threads: match field("threads") {
            "none" => Threads::None,
            "spin" => Threads::Spin,
            "lazy" => Threads::Lazy,
            other => panic!("unknown threads {other}"),
        },
    }
}
