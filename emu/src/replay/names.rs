//! What recordings are called beside each other: their file names without what all of them share.

use std::path::{Path, PathBuf};

/// The ends of file names that say nothing about the recording.
const ENDINGS: [&str; 3] = [".zst", ".trc", ".mmtrc"];

/// A name for each path. They differ where the file names do; equal file names keep their folders.
pub(super) fn apart(paths: &[PathBuf]) -> Vec<String> {
    let whole: Vec<String> = paths.iter().map(|it| it.display().to_string()).collect();
    let stems: Vec<String> = paths.iter().map(|it| stem(it)).collect();
    let distinct = |names: &[String]| {
        let mut sorted: Vec<_> = names.iter().collect();
        sorted.sort_unstable();
        sorted.windows(2).all(|it| it[0] != it[1])
    };
    if !distinct(&stems) {
        return whole;
    }
    if let [only] = stems.as_slice() {
        return vec![only.clone()];
    }
    let split: Vec<Vec<&str>> = stems.iter().map(|it| words(it)).collect();
    let shortest = split.iter().map(Vec::len).min().unwrap_or(0);
    let first = &split[0];
    let all = |same: &dyn Fn(&Vec<&str>) -> bool| split.iter().all(same);
    let front = (0..shortest)
        .take_while(|&n| all(&|it| it[n] == first[n]))
        .count();
    let back = (1..=shortest - front)
        .take_while(|&n| all(&|it| it[it.len() - n] == first[first.len() - n]))
        .count();
    let name = |it: &Vec<&str>| {
        let middle = it[front..it.len() - back].concat();
        middle.trim_matches(['-', '.', '_']).to_owned()
    };
    let names: Vec<String> = split.iter().map(name).collect();
    if distinct(&names) && names.iter().all(|it| !it.is_empty()) {
        names
    } else {
        stems
    }
}

fn stem(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    let mut name = name.to_string_lossy().into_owned();
    for ending in ENDINGS {
        if let Some(rest) = name.strip_suffix(ending) {
            name = rest.to_owned();
        }
    }
    name
}

/// Words, each with the separator before it.
fn words(name: &str) -> Vec<&str> {
    let starts = name.match_indices(['-', '.', '_']).map(|it| it.0);
    let starts: Vec<_> = std::iter::once(0).chain(starts).collect();
    let ends = starts[1..].iter().copied().chain([name.len()]);
    starts
        .iter()
        .zip(ends)
        .map(|(&from, to)| &name[from..to])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(files: &[&str]) -> Vec<String> {
        apart(&files.iter().map(PathBuf::from).collect::<Vec<_>>())
    }

    #[test]
    fn what_all_share_is_left_out() {
        let kernels = [
            "arm64-6.12-n1-64K.munmap64.trc.zst",
            "arm64-6.12-n1-never.munmap64.trc.zst",
        ];
        assert_eq!(named(&kernels), ["64K", "never"]);
        let cases = [
            "a/x-never.munmap64.trc.zst",
            "b/x-never.mremap4M-pmd.trc.zst",
        ];
        assert_eq!(named(&cases), ["munmap64", "mremap4M-pmd"]);
    }

    #[test]
    fn one_keeps_its_name_and_equal_ones_their_folders() {
        assert_eq!(named(&["a/x-never.munmap64.trc.zst"]), ["x-never.munmap64"]);
        assert_eq!(named(&["a/x.trc", "b/x.trc"]), ["a/x.trc", "b/x.trc"]);
    }

    #[test]
    fn a_name_inside_another_is_not_lost() {
        assert_eq!(named(&["x-a.trc", "x-a-b.trc"]), ["x-a", "x-a-b"]);
        assert_eq!(named(&["x.trc", "y.trc"]), ["x", "y"]);
    }
}
