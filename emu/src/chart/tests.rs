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
        figures: vec![Panel::Plot(figure()), Panel::Plot(figure())],
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
        figures: vec![Panel::Plot(empty)],
        ..Sheet::default()
    };
    assert_balanced(&Svg.export(&sheet));
}

fn bars() -> Bars {
    let bar = |name: &str, parts: &[(usize, f64)]| Bar {
        name: name.to_owned(),
        parts: parts.to_vec(),
        label: "12".to_owned(),
        interval: None,
        mark: None,
    };
    Bars {
        title: "Shares".to_owned(),
        caption: "a <caption>".to_owned(),
        axis: Axis {
            label: "per cent".to_owned(),
            scale: Scale::Linear,
        },
        bars: vec![
            bar("pte", &[(0, 75.0), (1, 25.0)]),
            bar("pud", &[(1, 100.0)]),
        ],
        parts: vec!["data".to_owned(), "walk".to_owned()],
        mark: None,
        words: vec!["A sentence.".to_owned()],
        table: Table::default(),
    }
}

fn one(bars: Bars) -> Sheet {
    Sheet {
        figures: vec![Panel::Bars(bars)],
        ..Sheet::default()
    }
}

/// The numbers of an attribute, in order.
fn attributes(text: &str, element: &str, name: &str) -> Vec<f64> {
    let opening = format!("<{element} ");
    let elements = text.split(&opening).skip(1);
    let value = |it: &str| {
        let (_, rest) = it.split('>').next()?.split_once(&format!(" {name}=\""))?;
        rest.split('"').next()?.parse().ok()
    };
    elements.filter_map(value).collect()
}

#[test]
fn parts_of_a_bar_follow_each_other_and_end_where_the_whole_does() {
    let text = Svg.export(&one(bars()));
    assert_balanced(&text);
    assert!(text.contains("a &lt;caption&gt;"));
    let (x, width) = (
        attributes(&text, "rect", "x"),
        attributes(&text, "rect", "width"),
    );
    // The paper is no bar: its width is its first attribute. The last two are the legend's.
    assert_eq!((x.len(), width.len()), (5, 5));
    assert!((x[0] + width[0] - x[1]).abs() < 0.2, "{x:?} {width:?}");
    assert!((width[0] / width[1] - 3.0).abs() < 0.01, "{width:?}");
    assert!(
        (width[0] + width[1] - width[2]).abs() < 0.2,
        "both are 100 long"
    );
    assert_eq!(text.matches("75 %").count(), 1);
    assert!(
        !text.contains("100 %"),
        "a whole bar has no share written into it"
    );
}

#[test]
fn the_shortest_bar_of_a_logarithmic_axis_is_seen_and_all_ends_have_a_place() {
    let mut log = bars();
    log.axis.scale = Scale::Log10;
    log.parts.clear();
    for (bar, length) in log.bars.iter_mut().zip([8_000.0, 30e6]) {
        bar.parts = vec![(0, length)];
        bar.interval = Some((length * 0.7, length * 1.6));
        bar.mark = Some(length * 3.0);
    }
    log.mark = Some("published".to_owned());
    let text = Svg.export(&one(log));
    assert_balanced(&text);
    let width = attributes(&text, "rect", "width");
    assert!(width[0] > 5.0 && width[1] > width[0], "{width:?}");
    assert_eq!(
        text.matches("class=\"diamond\"").count(),
        3,
        "two bars and the legend"
    );
    assert_eq!(text.matches("class=\"whisker\"").count(), 2);
}

#[test]
fn a_page_tells_what_bars_say() {
    assert!(Html.export(&one(bars())).contains("<p>A sentence.</p>"));
    let mut empty = bars();
    empty.bars.clear();
    assert_balanced(&Svg.export(&one(empty)));
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
