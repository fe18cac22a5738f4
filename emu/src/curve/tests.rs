//! Tests of curves, with runs that take no time.

use mmuscope_models::cost::{Attribution, Cycles};
use mmuscope_models::counters::Counters;

use super::*;
use crate::chart::{Exporter, Svg};
use crate::experiment::machines::select;
use crate::report::Region;

fn request(names: &[&str]) -> Request {
    let names: Vec<_> = names.iter().map(|&it| it.to_owned()).collect();
    Request {
        machines: select(&names, &[]).unwrap(),
        from: 16 << 10,
        to: 64 << 10,
        touch: Touch::Page,
        seed: 7,
    }
}

/// A guest that takes as many cycles a load as its footprint has pages.
fn page_by_page(job: &Job<'_>) -> Result<Finished, String> {
    let param = |key: &str| -> u64 {
        let found = job.params.iter().find(|it| it.0 == key);
        found.unwrap().1.parse().unwrap()
    };
    let cycles = Cycles::new(param("loads") * param("footprint") / 4096);
    let mut attribution = Attribution::default();
    attribution.charge(Category::Data, cycles);
    let mut counters = Counters::default();
    counters.data.walks = param("loads") / 2;
    Ok(Finished {
        verdict: Verdict::Fine,
        results: Pairs::default(),
        regions: vec![Region {
            name: "chase".to_owned(),
            cycles: Some(cycles),
            nanoseconds: Some(cycles.nanoseconds(job.profile.ghz())),
            counters,
            attribution: Some(attribution),
            ..Region::default()
        }],
        console: String::new(),
    })
}

#[test]
fn every_footprint_and_folio_has_a_point_whatever_the_number_of_jobs() {
    let request = request(&["cortex-a76", "skylake-sp"]);
    let curves = request.draw(Some(1), &page_by_page, &|| {}).unwrap();
    let folios =
        |n: usize| -> Vec<_> { curves.curves[n].lines.iter().map(|it| it.folio).collect() };
    assert_eq!(folios(0), [Folio::Page, Folio::Group, Folio::Huge]);
    assert_eq!(folios(1), [Folio::Page, Folio::Huge]);
    let points = &curves.curves[0].lines[0].points;
    let footprints: Vec<_> = points.iter().map(|it| it.footprint >> 10).collect();
    assert_eq!(footprints, [16, 24, 32, 48, 64]);
    assert!((points[4].cycles - 16.0).abs() < 1e-9);
    assert!((points[4].walks - 0.5).abs() < 1e-9);
    assert_eq!(request.runs().unwrap(), 25);
    let again = request.draw(Some(2), &page_by_page, &|| {}).unwrap();
    let json = |it: &Curves| serde_json::to_string(it).unwrap();
    assert_eq!(json(&curves), json(&again));
    assert!(text(&curves).lines().all(|line| line.len() <= 100));
    assert_eq!(Svg.export(&sheet(&curves)).matches("<polyline").count(), 5);
}

#[test]
fn loads_of_a_chase_wait_for_each_other() {
    let profile = Profile::builtin("skylake-sp").unwrap();
    let chased = without_overlap(&profile).unwrap();
    let machine = chased.machine();
    assert!((machine.cache.overlap_factor.value - 1.0).abs() < 1e-9);
    let load = chased.costs().of(mmuscope_models::cost::Operation::Load);
    assert!((load.as_f64() - machine.cache.l1d.latency_cycles.value).abs() < 1e-9);
}

#[test]
fn limits_without_a_footprint_and_failed_runs_are_errors_of_one_line() {
    let mut empty = request(&["zen3"]);
    (empty.from, empty.to) = (64 << 10, 16 << 10);
    let error = empty.draw(None, &page_by_page, &|| {}).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("--from 64K --to 16K: expected")
    );
    let fails = |_: &Job<'_>| Err("no engine".to_owned());
    let error = request(&["zen3"])
        .draw(Some(1), &fails, &|| {})
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "chase footprint=16K folio=4K on zen3: no engine"
    );
}

#[test]
fn reaches_are_entries_times_pages_or_the_size_of_caches() {
    let profile = Profile::builtin("cortex-a76").unwrap();
    let ends = |touch| -> Vec<u64> {
        let all = reaches(&profile, touch).into_iter();
        all.map(|it| it.footprint >> 10).collect()
    };
    assert_eq!(ends(Touch::Page), [48 * 4, 1280 * 4]);
    assert_eq!(ends(Touch::Line), [64, 512, 2048]);
}
