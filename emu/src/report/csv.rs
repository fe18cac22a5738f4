//! CSV: one row a region of a run, every counter a column.

use mmuscope_models::cost::Attribution;
use mmuscope_models::counters::Counters;

use super::figures::flatten;
use super::region::is_timed;
use super::{ExportError, Exporter, Region, Report, Run, Verdict};

/// The report as comma-separated values with a header. A run that ended without a region has one
/// row with these columns empty.
#[derive(Copy, Clone, Debug, Default)]
pub struct Csv;

impl Exporter for Csv {
    fn export(&self, report: &Report) -> Result<Vec<u8>, ExportError> {
        let mut writer = ::csv::Writer::from_writer(Vec::new());
        writer.write_record(header(report)?)?;
        for run in &report.runs {
            for region in &run.regions {
                writer.write_record(row(report, run, Some(region))?)?;
            }
            if run.regions.is_empty() {
                writer.write_record(row(report, run, None)?)?;
            }
        }
        let flushed = writer.into_inner();
        flushed.map_err(|error| ExportError::Flush(error.error().to_string()))
    }
}

const FIXED: [&str; 10] = [
    "status",
    "message",
    "region",
    "profile_hash",
    "clock_ghz",
    "speedup",
    "cycles",
    "nanoseconds",
    "cycles_low",
    "cycles_high",
];

/// The columns after the fixed ones, with a region's values or empty.
fn figures(region: Option<&Region>) -> Result<Vec<(String, String)>, ExportError> {
    let (no_counters, no_attribution) = (Counters::default(), Attribution::default());
    let (counters, attribution) = match region {
        Some(it) => (
            &it.counters,
            it.attribution.as_ref().unwrap_or(&no_attribution),
        ),
        None => (&no_counters, &no_attribution),
    };
    let spent = flatten(attribution)?.into_iter();
    let spent = spent.map(|(name, value)| (format!("cycles.{name}"), value));
    let timed = region.is_some_and(|it| it.cycles.is_some());
    let text = |name: &str, value: serde_json::Value| match region {
        Some(_) if timed || !(name.starts_with("cycles.") || is_timed(name)) => value.to_string(),
        _ => String::new(),
    };
    let all = flatten(counters)?.into_iter().chain(spent);
    Ok(all
        .map(|(name, value)| {
            let text = text(&name, value);
            (name, text)
        })
        .collect())
}

fn or_empty(value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |it| it.to_string())
}

fn header(report: &Report) -> Result<Vec<String>, ExportError> {
    let mut header = vec!["scenario".to_owned(), "machine".to_owned()];
    header.extend(report.axes.0.iter().map(|it| it.0.clone()));
    header.extend(FIXED.map(str::to_owned));
    header.extend(figures(None)?.into_iter().map(|it| it.0));
    Ok(header)
}

fn row(report: &Report, run: &Run, region: Option<&Region>) -> Result<Vec<String>, ExportError> {
    let mut row = vec![report.scenario.clone(), run.machine.clone()];
    let axes = report.axes.0.iter();
    row.extend(axes.map(|it| run.point.get(&it.0).cloned().unwrap_or_default()));
    let (status, message) = match &run.verdict {
        Verdict::Fine => ("fine", ""),
        Verdict::Unsafe(message) => ("unsafe", message.as_str()),
        Verdict::Failed(message) => ("failed", message.as_str()),
    };
    let machine = report.machines.iter().find(|it| it.profile == run.machine);
    let compared = region.is_some_and(|it| it.name == report.region);
    let speedup = run.speedup.filter(|_| compared);
    row.extend([
        status.to_owned(),
        message.to_owned(),
        region.map_or_else(String::new, |it| it.name.clone()),
        machine.map_or_else(String::new, |it| it.hash.clone()),
        machine.map_or_else(String::new, |it| it.clock_ghz.to_string()),
        or_empty(speedup),
        or_empty(region.and_then(|it| it.cycles)),
        or_empty(region.and_then(|it| it.nanoseconds)),
        or_empty(region.and_then(|it| it.interval).map(|it| it.low)),
        or_empty(region.and_then(|it| it.interval).map(|it| it.high)),
    ]);
    row.extend(figures(region)?.into_iter().map(|it| it.1));
    Ok(row)
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn every_row_has_every_column() {
        let bytes = Csv.export(&sample::report()).unwrap();
        let mut reader = ::csv::Reader::from_reader(bytes.as_slice());
        let header = reader.headers().unwrap().clone();
        let rows: Vec<_> = reader.records().map(Result::unwrap).collect();
        assert_eq!(rows.len(), 4);
        let at = |row: usize, name: &str| {
            let column = header.iter().position(|it| it == name).unwrap();
            rows[row].get(column).unwrap().to_owned()
        };
        assert_eq!(at(0, "level"), "pte");
        assert_eq!(at(0, "lower_tables.clear_leaf.l3"), "262144");
        assert_eq!(at(0, "profile_hash"), sample::report().machines[0].hash);
        assert_eq!(at(1, "speedup"), "8");
        assert_eq!(at(1, "cycles"), "4000000.000");
        assert_eq!(at(2, "tlbi_broadcast.asid"), "1");
        assert_eq!(at(3, "status"), "unsafe");
        assert_eq!(at(3, "speedup"), "");
    }
}
