//! Bars beside each other as SVG elements.

use maud::{Markup, html};

use super::draw::{WIDTH, count};
use super::scale::Fitted;
use super::style::LOOKS;
use super::{Bar, Bars, Scale};

const LEFT: f64 = 14.0;
/// Room for what is written behind a bar.
const RIGHT: f64 = 84.0;
const TOP: f64 = 58.0;
/// From one bar to the next: its name, the bar, a gap.
const STEP: f64 = 42.0;
const THICKNESS: f64 = 16.0;
/// From the top of a step to the upper edge of its bar.
const NAME: f64 = 18.0;
const LEGEND_ROW: f64 = 22.0;
const LEGEND_COLUMNS: usize = 3;
/// A part that is at least so wide has its share written into it.
const ROOM_FOR_SHARE: f64 = 34.0;
/// On a logarithmic axis the shortest bar still has this part of a decade.
const SHORTEST: f64 = 2.5;

/// Bars with their places.
pub(super) struct BarDrawing<'a> {
    bars: &'a Bars,
    axis: Fitted,
}

impl<'a> BarDrawing<'a> {
    pub(super) fn new(bars: &'a Bars) -> Self {
        let ends = || {
            bars.bars.iter().flat_map(|bar| {
                let interval = bar.interval.into_iter().flat_map(|it| [it.0, it.1]);
                interval.chain(bar.mark).chain([length(bar)])
            })
        };
        let least = ends().filter(|it| *it > 0.0).fold(f64::INFINITY, f64::min);
        let room = (bars.axis.scale != Scale::Linear).then_some(least / SHORTEST);
        Self {
            bars,
            axis: Fitted::new(bars.axis.scale, ends().chain(room)),
        }
    }

    pub(super) fn height(&self) -> f64 {
        let legend = self.legend_entries().div_ceil(LEGEND_COLUMNS);
        self.bottom() + 52.0 + LEGEND_ROW * count(legend)
    }

    pub(super) fn elements(&self, top: f64) -> Markup {
        html! {
            g transform=(format!("translate(0 {top:.0})")) {
                text.title x="12" y="22" { (self.bars.title) }
                text.quiet x="12" y="40" { (self.bars.caption) }
                (self.grid())
                @for (index, bar) in self.bars.bars.iter().enumerate() {
                    (self.bar(TOP + STEP * count(index), bar))
                }
                (self.legend())
            }
        }
    }

    fn bottom(&self) -> f64 {
        TOP + STEP * count(self.bars.bars.len()) + 4.0
    }

    fn grid(&self) -> Markup {
        let bottom = self.bottom();
        html! {
            @for tick in self.axis.ticks() {
                @let x = format!("{:.1}", column(tick.at));
                line.grid x1=(x) x2=(x) y1=(TOP) y2=(bottom) {}
                text.quiet text-anchor="middle" x=(x) y=(bottom + 16.0) { (tick.label) }
            }
            text.quiet text-anchor="middle" x=(WIDTH / 2.0) y=(bottom + 34.0) {
                (self.bars.axis.label)
            }
        }
    }

    /// Where `value` ends; the left edge if it has no place.
    fn end(&self, value: f64) -> f64 {
        column(self.axis.place(value).unwrap_or(0.0))
    }

    fn bar(&self, top: f64, bar: &Bar) -> Markup {
        let upper = top + NAME;
        let middle = upper + THICKNESS / 2.0;
        let marks = bar.interval.map(|it| it.1).into_iter().chain(bar.mark);
        let furthest = marks
            .map(|it| self.end(it))
            .fold(self.end(length(bar)), f64::max);
        html! {
            text x=(LEFT) y=(top + 13.0) { (bar.name) }
            @for (part, from, to) in self.spans(bar) {
                rect class=(format!("bar f{}", part % LOOKS)) x=(format!("{from:.1}"))
                    y=(upper) width=(format!("{:.1}", to - from)) height=(THICKNESS) {}
                @if bar.parts.len() > 1 && to - from >= ROOM_FOR_SHARE {
                    text.inside text-anchor="middle" x=(format!("{:.1}", (from + to) / 2.0))
                        y=(middle + 4.0) { (share(bar, part)) }
                }
            }
            @if let Some((low, high)) = bar.interval {
                path.whisker d=(format!("M{0:.1} {1:.1}v6m0 -3H{2:.1}m0 -3v6",
                    self.end(low), middle - 3.0, self.end(high))) {}
            }
            @if let Some(mark) = bar.mark {
                (diamond(self.end(mark), middle))
            }
            text.quiet x=(format!("{:.1}", furthest + 8.0)) y=(middle + 4.0) { (bar.label) }
        }
    }

    /// The parts of a bar that have a place: which, from where, to where.
    fn spans(&self, bar: &Bar) -> Vec<(usize, f64, f64)> {
        let mut sum = 0.0;
        let mut from = LEFT;
        let mut spans = Vec::new();
        for &(part, length) in &bar.parts {
            sum += length;
            let to = self.end(sum).max(from);
            spans.push((part, from, to));
            from = to;
        }
        spans
    }

    fn legend_entries(&self) -> usize {
        self.bars.parts.len() + usize::from(self.bars.mark.is_some())
    }

    fn legend(&self) -> Markup {
        let width = (WIDTH - 2.0 * LEFT) / count(LEGEND_COLUMNS);
        let at = |index: usize| {
            let x = LEFT + width * count(index % LEGEND_COLUMNS);
            let y = self.bottom() + 52.0 + LEGEND_ROW * count(index / LEGEND_COLUMNS);
            (x, y)
        };
        html! {
            @for (index, name) in self.bars.parts.iter().enumerate() {
                @let (x, y) = at(index);
                rect class=(format!("bar f{}", index % LOOKS)) x=(x) y=(y - 7.0)
                    width="14" height="14" {}
                text.quiet x=(x + 20.0) y=(y + 4.0) { (name) }
            }
            @if let Some(name) = &self.bars.mark {
                @let (x, y) = at(self.bars.parts.len());
                (diamond(x + 7.0, y))
                text.quiet x=(x + 20.0) y=(y + 4.0) { (name) }
            }
        }
    }
}

fn length(bar: &Bar) -> f64 {
    bar.parts.iter().map(|it| it.1).sum()
}

/// A part in whole per cent of its bar.
fn share(bar: &Bar, part: usize) -> String {
    let of = |it: &&(usize, f64)| it.0 == part;
    let part: f64 = bar.parts.iter().filter(of).map(|it| it.1).sum();
    format!("{:.0} %", 100.0 * part / length(bar))
}

fn diamond(x: f64, y: f64) -> Markup {
    html! {
        path.diamond d=(format!("M{x:.1} {:.1}l7 7l-7 7l-7 -7z", y - 7.0)) {}
    }
}

fn column(place: f64) -> f64 {
    LEFT + place * (WIDTH - LEFT - RIGHT)
}
