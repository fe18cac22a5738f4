//! Tests of figures.

use super::scale::{Fitted, bytes};
use super::*;

fn figure() -> Figure {
    let line = |name: &str, points: &[(f64, f64)], kind| Series {
        name: name.to_owned(),
        kind,
        points: points.to_vec(),
    };
    Figure {
        title: "a < b & c".to_owned(),
        caption: "one line".to_owned(),
        x: Axis {
            label: "footprint".to_owned(),
            scale: Scale::Bytes,
        },
        y: Axis {
            label: "ns".to_owned(),
            scale: Scale::Log10,
        },
        series: vec![
            line(
                "4K",
                &[(65536.0, 1.4), (1e6, 20.0), (2e6, 0.0)],
                SeriesKind::Line,
            ),
            line("measured", &[(65536.0, 3.0)], SeriesKind::Dots),
        ],
        marks: vec![Mark {
            at: 262_144.0,
            label: "L1 TLB".to_owned(),
        }],
        table: Table {
            head: vec!["footprint".to_owned(), "ns".to_owned()],
            rows: vec![vec!["64K".to_owned(), "1.4".to_owned()]],
        },
    }
}

fn sheet() -> Sheet {
    Sheet {
        title: "Title".to_owned(),
        lead: "Lead.".to_owned(),
        figures: vec![figure(), figure()],
        notes: vec!["Note.".to_owned()],
    }
}

#[test]
fn places_keep_order_and_stay_inside() {
    for (scale, values) in [
        (Scale::Log10, [1.4, 37.0, 700.0]),
        (Scale::Bytes, [65536.0, 1e6, 5e8]),
        (Scale::Linear, [0.5, 10.0, 99.0]),
    ] {
        let axis = Fitted::new(scale, values.into_iter());
        let places = values.map(|it| axis.place(it).unwrap());
        assert!(places[0] < places[1] && places[1] < places[2], "{scale:?}");
        assert!((0.0..=1.0).contains(&places[0]) && (0.0..=1.0).contains(&places[2]));
        let ticks = axis.ticks();
        assert!(
            ticks.iter().filter(|it| !it.label.is_empty()).count() > 2,
            "{ticks:?}"
        );
        assert!(ticks.is_sorted_by(|a, b| a.at < b.at), "{ticks:?}");
    }
}

#[test]
fn what_has_no_logarithm_has_no_place() {
    let axis = Fitted::new(Scale::Log10, [0.0, 1.0, 10.0].into_iter());
    assert_eq!(axis.place(0.0), None);
    assert_eq!(axis.place(-1.0), None);
    assert!(axis.place(1.0).is_some());
}

#[test]
fn sizes_read_as_they_are_written() {
    let sizes = [512.0, 49152.0, 65536.0, 1_572_864.0, 1_073_741_824.0];
    assert_eq!(sizes.map(bytes), ["512", "48K", "64K", "1.5M", "1G"]);
}

#[test]
fn the_picture_is_well_formed_and_escaped() {
    let text = Svg.export(&sheet());
    assert!(text.contains("a &lt; b &amp; c"), "{text}");
    // One polyline of two points a figure: the point at zero has no place.
    let lines: Vec<_> = text.split("points=\"").skip(1).collect();
    assert_eq!(lines.len(), 2);
    let first = lines[0].split('"').next().unwrap();
    assert_eq!(first.split(' ').count(), 2, "{first}");
    assert_balanced(&text);
}

#[test]
fn the_page_needs_nothing_else_and_has_the_numbers() {
    let text = Html.export(&sheet());
    assert!(text.starts_with("<!DOCTYPE html>"));
    assert_eq!(text.matches("<td>1.4</td>").count(), 2);
    for outside in ["<script", "<link", "src=", "@import", "url("] {
        assert!(!text.contains(outside), "{outside}");
    }
    assert!(text.contains("name=\"viewport\""));
}

#[test]
fn a_sheet_gives_the_same_text_each_time_and_an_empty_one_gives_some() {
    assert_eq!(Svg.export(&sheet()), Svg.export(&sheet()));
    let mut empty = figure();
    empty.series.clear();
    let sheet = Sheet {
        figures: vec![empty],
        ..Sheet::default()
    };
    assert_balanced(&Svg.export(&sheet));
}

/// Every element that is opened is closed, in order: what an XML reader insists on.
fn assert_balanced(text: &str) {
    let mut open: Vec<&str> = Vec::new();
    for tag in text.split('<').skip(1) {
        let tag = tag.split('>').next().unwrap_or_default();
        let name = tag.split(' ').next().unwrap_or_default();
        match name.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name), "{tag}"),
            None => open.push(name),
        }
    }
    assert!(open.is_empty(), "{open:?}");
}
