//! What the tests over recordings share: finding the files.

// Each test binary uses a part of this module.
#![allow(dead_code)]

use std::path::{Path, PathBuf};

use mmuscope_traces::recording::{Isa, Recording};

/// The directory with the recordings that belong to the crate.
pub fn data() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/linux")
}

/// Every recording to test, sorted: those of the crate, and those in the directory that
/// `MMUSCOPE_RECORDINGS` names, if it is set.
pub fn recordings() -> Vec<PathBuf> {
    let more = std::env::var_os("MMUSCOPE_RECORDINGS").map(PathBuf::from);
    let mut found: Vec<_> = [Some(data()), more]
        .into_iter()
        .flatten()
        .flat_map(|directory| std::fs::read_dir(directory).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "zst"))
        .collect();
    found.sort_by(|a, b| a.file_name().cmp(&b.file_name()));
    found.dedup_by(|a, b| a.file_name() == b.file_name());
    assert!(found.len() >= 11, "recordings are missing: {found:?}");
    found
}

/// The file's name without its extensions, for messages.
pub fn name(path: &Path) -> &str {
    let name = path.file_name().unwrap().to_str().unwrap();
    name.trim_end_matches(".trc.zst")
}

/// The instruction set a file was recorded on.
pub fn isa(path: &Path) -> Isa {
    let reader = mmuscope_traces::open::<Recording>(path).unwrap();
    reader.header().isa
}
