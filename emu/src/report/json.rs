//! JSON: the whole report.

use super::{ExportError, Exporter, Report};

/// The report as indented JSON with a final line break.
#[derive(Copy, Clone, Debug, Default)]
pub struct Json;

impl Exporter for Json {
    fn export(&self, report: &Report) -> Result<Vec<u8>, ExportError> {
        let mut bytes = serde_json::to_vec_pretty(report)?;
        bytes.push(b'\n');
        Ok(bytes)
    }
}
