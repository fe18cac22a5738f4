//! Output files: a path that cannot be written is refused before anything runs, and a file is
//! never seen half written.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::exit::Internal;

/// Where an export goes.
#[derive(Debug)]
pub struct Output {
    target: Target,
}

#[derive(Debug)]
enum Target {
    Stdout,
    /// The file beside `path` that becomes it; removed if the run ends without a result.
    File {
        path: PathBuf,
        temporary: Temporary,
    },
}

#[derive(Debug)]
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // After a rename there is nothing to remove.
        let _ = fs::remove_file(&self.0);
    }
}

impl Output {
    /// Prepares to write to `path`; `-` is the standard output.
    ///
    /// # Errors
    /// No file can be created at `path`.
    pub fn prepare(option: &str, path: &Path) -> anyhow::Result<Self> {
        if path == Path::new("-") {
            return Ok(Self {
                target: Target::Stdout,
            });
        }
        let Some(name) = path.file_name() else {
            bail!(
                "{option}: `{}` is not the name of a file: expected a path such as out/report",
                path.display()
            );
        };
        if path.is_dir() {
            bail!(
                "{option}: `{}` is a folder: expected a file, such as {}",
                path.display(),
                path.join("report").display()
            );
        }
        let temporary = path.with_file_name(temporary_name(name));
        fs::write(&temporary, b"")
            .with_context(|| format!("{option}: cannot create `{}`", path.display()))?;
        Ok(Self {
            target: Target::File {
                path: path.to_owned(),
                temporary: Temporary(temporary),
            },
        })
    }

    /// Whether this is the standard output.
    pub fn is_stdout(&self) -> bool {
        matches!(self.target, Target::Stdout)
    }

    /// Writes everything, or leaves what was there before.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(self, bytes: &[u8]) -> anyhow::Result<()> {
        match &self.target {
            Target::Stdout => print(bytes),
            Target::File { path, temporary } => fs::write(&temporary.0, bytes)
                .and_then(|()| fs::rename(&temporary.0, path))
                .map_err(|error| {
                    let place = path.display();
                    Internal(format!("`{place}` cannot be written: {error}")).into()
                }),
        }
    }
}

/// A name of this process's own, so that two runs with the same output do not mix.
fn temporary_name(name: &OsStr) -> std::ffi::OsString {
    let mut temporary = std::ffi::OsString::from(".");
    temporary.push(name);
    temporary.push(format!(".{}.part", std::process::id()));
    temporary
}

/// Writes to the standard output. A reader that has gone away is no error: it has seen enough.
pub fn print(bytes: &[u8]) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Internal(format!("the output cannot be written: {error}")).into())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_seen_until_all_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.json");
        fs::write(&path, "old").unwrap();
        let output = Output::prepare("--json", &path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        output.write(b"new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_run_without_a_result_leaves_no_trace() {
        let folder = tempfile::tempdir().unwrap();
        drop(Output::prepare("--csv", &folder.path().join("report.csv")).unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let error = Output::prepare("--json", folder.path()).unwrap_err();
        assert!(error.to_string().contains("is a folder"), "{error}");
        let missing = folder.path().join("missing/report.json");
        let error = Output::prepare("--json", &missing).unwrap_err();
        assert!(error.to_string().contains("cannot create"), "{error}");
    }
}
