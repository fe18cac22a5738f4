//! Bad input gets one clear line on the standard error and exit code 2, before anything runs.

use std::fs;
use std::path::PathBuf;

use assert_cmd::Command;
use mmuscope_guest::ArchName;
use mmuscope_guest::mremap::MREMAP;
use tempfile::TempDir;

/// The error line of a command that is refused.
fn refusal(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mmuscope"));
    let output = command.args(arguments).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
    assert!(output.stdout.is_empty(), "{arguments:?}");
    assert_eq!(error.lines().count(), 1, "{arguments:?}: {error}");
    assert!(error.starts_with("mmuscope: "), "{error}");
    error
}

/// The error line of a comparison on one machine.
fn compare(words: &[&str]) -> String {
    refusal(&[&["compare", "mremap", "--on", "cortex-a76"], words].concat())
}

#[track_caller]
fn assert_says(error: &str, parts: &[&str]) {
    for part in parts {
        assert!(error.contains(part), "`{part}` is not in: {error}");
    }
}

/// A file with `bytes`; the folder goes with the first of the two.
fn file(bytes: &[u8]) -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("guest.elf");
    fs::write(&path, bytes).unwrap();
    (folder, path)
}

fn run_file(bytes: &[u8]) -> String {
    let (_folder, path) = file(bytes);
    refusal(&["run", path.to_str().unwrap(), "--on", "cortex-a76"])
}

/// The header of an empty ELF file of `class` (1: 32-bit, 2: 64-bit) for AArch64.
fn elf_header(class: u8) -> Vec<u8> {
    let mut header = vec![0; 64];
    header[..7].copy_from_slice(&[0x7f, b'E', b'L', b'F', class, 1, 1]);
    header[16] = 2;
    header[18] = 183;
    header[20] = 1;
    header[52] = 64;
    header
}

#[test]
fn a_missing_guest_program_is_named() {
    let error = refusal(&["run", "no-such.elf", "--on", "cortex-a76"]);
    assert_says(&error, &["`no-such.elf`", "No such file"]);
}

#[test]
fn a_truncated_elf_is_refused() {
    let whole = (MREMAP.elf)(ArchName::Aarch64);
    for length in [0, 3, 20, 63, 100, whole.len() / 4] {
        assert_says(&run_file(&whole[..length]), &["guest.elf"]);
    }
}

#[test]
fn a_32_bit_elf_is_refused() {
    assert_says(&run_file(&elf_header(1)), &["guest.elf", "64-bit"]);
}

#[test]
fn an_elf_with_nothing_to_load_is_refused() {
    assert_says(&run_file(&elf_header(2)), &["guest.elf"]);
}

#[test]
fn a_program_for_another_architecture_is_refused() {
    let error = run_file((MREMAP.elf)(ArchName::X86_64));
    assert_says(&error, &["x86_64", "cortex-a76", "aarch64"]);
}

#[test]
fn an_unknown_profile_gets_a_suggestion() {
    let error = refusal(&["compare", "mremap", "--on", "cortex-a67"]);
    assert_says(
        &error,
        &["unknown profile `cortex-a67`", "did you mean `cortex-a76`?"],
    );
}

#[test]
fn an_unknown_scenario_gets_a_suggestion() {
    let error = refusal(&["compare", "mremp", "--on", "cortex-a76"]);
    assert_says(
        &error,
        &["unknown scenario `mremp`", "did you mean `mremap`?"],
    );
}

#[test]
fn an_unknown_axis_gets_a_suggestion() {
    let error = compare(&["levl=pte"]);
    assert_says(&error, &["unknown axis `levl`", "did you mean `level`?"]);
}

#[test]
fn an_unknown_value_gets_a_suggestion() {
    let error = compare(&["level=pdm"]);
    assert_says(&error, &["axis `level`", "`pdm`", "did you mean `pmd`?"]);
}

#[test]
fn a_fractional_size_is_refused_with_what_is_expected() {
    let error = compare(&["size=1.5K"]);
    assert_says(
        &error,
        &["axis `size`", "`1.5K` is not a size", "from 4K to"],
    );
    assert_says(&compare(&["size=1.5M"]), &["did you mean `1536K`?"]);
}

#[test]
fn zero_cpus_are_refused() {
    let error = compare(&["cpus=0"]);
    assert_says(
        &error,
        &["axis `cpus`", "0 is out of range", "expected 1 to"],
    );
    let (_folder, path) = file((MREMAP.elf)(ArchName::Aarch64));
    let path = path.to_str().unwrap();
    let error = refusal(&["run", path, "--cpus", "0", "--on", "cortex-a76"]);
    assert_says(&error, &["axis `cpus`", "0 is out of range"]);
}

#[test]
fn a_word_that_is_no_setting_is_refused() {
    assert_says(&compare(&["pmd"]), &["`pmd` is not a setting", "key=value"]);
}

#[test]
fn a_baseline_that_is_not_run_is_refused() {
    let error = compare(&["level=pmd,pud", "--base", "level=pte"]);
    assert_says(&error, &["level=pte is not run", "pmd or pud"]);
}

#[test]
fn an_override_of_nothing_is_refused() {
    let error = compare(&["--set", "clock.gzh=2"]);
    assert_says(&error, &["clock.gzh", "did you mean `clock.ghz`?"]);
}

#[test]
fn an_output_that_cannot_be_written_is_refused_before_the_run() {
    let folder = TempDir::new().unwrap();
    let missing = folder.path().join("missing/report");
    for option in ["--json", "--csv"] {
        let error = compare(&[option, missing.to_str().unwrap()]);
        assert_says(&error, &[option, "cannot create"]);
    }
}

#[test]
fn two_formats_do_not_go_to_one_place() {
    let error = compare(&["--json", "-", "--csv", "-"]);
    assert_says(&error, &["--csv", "`-` is where --json goes"]);
}

#[test]
fn arguments_that_the_options_do_not_allow_are_one_line_too() {
    assert_says(&refusal(&["compare", "mremap"]), &["--on"]);
    assert_says(&compare(&["--jobs", "0"]), &["--jobs"]);
    assert_says(&refusal(&["compear", "mremap"]), &["compear"]);
    assert_says(
        &refusal(&["compare", "mremap", "--on", ""]),
        &["profile ``"],
    );
}

#[test]
fn a_broken_profile_file_is_refused_with_its_place() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("mine.toml");
    fs::write(
        &path,
        "name = \"mine\"\nextends = \"cortex-a76\"\nspeed = 3\n",
    )
    .unwrap();
    let error = refusal(&["profile", "check", path.to_str().unwrap()]);
    assert_says(&error, &["mine.toml", "speed"]);
}

#[test]
fn curves_without_a_footprint_or_with_one_file_for_two_formats_are_refused() {
    let curve = |more: &[&str]| refusal(&[&["curve", "--on", "cortex-a76"], more].concat());
    let error = curve(&["--from", "2M", "--to", "64K"]);
    assert_says(
        &error,
        &["--from 2M --to 64K", "expected at least one page"],
    );
    let error = curve(&["--to", "1.5M"]);
    assert_says(&error, &["1.5M", "expected a size such as 64K"]);
    let error = curve(&["--svg", "one", "--html", "one"]);
    assert_says(&error, &["--html", "`one`", "--svg", "another file"]);
}

#[test]
fn a_broken_profile_is_named_with_file_line_and_what_was_meant() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("mine.toml");
    let path = path.to_str().unwrap();
    let check = |text: &str| {
        fs::write(path, text).unwrap();
        refusal(&["profile", "check", path])
    };
    let head = "name = \"mine\"\nextends = \"zen3\"\n";
    let source = "source = \"a reason\", quality = \"estimated\"";
    let error = check(&format!(
        "{head}[clock]\nmhz = {{ value = 3000.0, {source} }}\n"
    ));
    assert_says(
        &error,
        &[
            "mine.toml`, line 4",
            "`clock.mhz`",
            "expected `ghz`",
            "did you mean `ghz`?",
        ],
    );
    let error = check(&format!(
        "{head}[cost.cycles]\ninvlgp = {{ value = 3.0, {source} }}\n"
    ));
    assert_says(
        &error,
        &["line 4", "`cost.cycles.invlgp`", "did you mean `invlpg`?"],
    );
    let error = check(&format!(
        "{head}\n[tlb.l2.small]\nways = {{ value = 7, {source} }}\n"
    ));
    assert_says(
        &error,
        &["line 5", "`tlb.l2.small.ways` is 7", "divisor", "(2048)"],
    );
    let error = check(&format!("{head}[clock]\nghz = 3.0\n"));
    assert_says(
        &error,
        &["line 4", "`clock.ghz`", "{ value = .., source = \"..\""],
    );
    let error = check("name = \"mine\"\nextends = \"zen9\"\n");
    assert_says(&error, &["unknown profile `zen9`", "did you mean `zen"]);
    let error = check("name = \"mine\nextends = \"zen3\"\n");
    assert_says(&error, &["mine.toml", "line 1"]);
}

#[test]
fn a_new_profile_replaces_no_file_and_has_a_proper_name() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("new.toml");
    fs::write(&path, "precious").unwrap();
    let file = path.to_str().unwrap();
    let error = refusal(&["profile", "new", "mine", file]);
    assert_says(&error, &["new.toml` exists already", "expected a new file"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    let error = refusal(&["profile", "new", "My Machine", "-"]);
    assert_says(&error, &["`name`", "lower-case letters"]);
    let error = refusal(&["profile", "new", "mine", "--from", "cortex-a67", "-"]);
    assert_says(&error, &["cortex-a67", "did you mean `cortex-a76`?"]);
}

#[test]
fn options_that_do_not_fit_together_are_refused() {
    let words = ["level=pmd", "size=2M"];
    let with = |options: &[&str]| compare(&[&words[..], options].concat());
    let error = with(&["--timing", "off", "--seeds", "3"]);
    assert_says(&error, &["--seeds", "expected --timing full"]);
    let error = with(&["--timing", "of"]);
    assert_says(&error, &["--timing", "'of'", "off, full"]);
    let error = with(&["--names", "perf"]);
    assert_says(&error, &["--names", "pmu, vmstat"]);
    assert_says(&with(&["--seeds", "0"]), &["--seeds", "1..=1000"]);
    assert_says(
        &with(&["--seeds", "2", "--seed", "1"]),
        &["--seed", "cannot"],
    );
}
