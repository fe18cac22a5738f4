//! One figure as SVG elements.

use maud::{Markup, html};

use super::bars::BarDrawing;
use super::scale::{Fitted, Tick};
use super::style::{DASHES, LOOKS};
use super::{Figure, Mark, Panel, Series, SeriesKind};

/// Width of a drawing in its own units. Narrow, so that its text is still readable on a phone.
pub(super) const WIDTH: f64 = 560.0;

const LEFT: f64 = 58.0;
const RIGHT: f64 = 24.0;
const PLOT_TOP: f64 = 72.0;
const PLOT_HEIGHT: f64 = 270.0;
const LEGEND_ROW: f64 = 22.0;
/// Legend entries beside each other.
const LEGEND_COLUMNS: usize = 2;
/// Labels of marks stand in so many rows in turn: neighbours would cover each other.
const MARK_ROWS: usize = 2;

/// A figure of either kind, with its places.
pub(super) enum Drawn<'a> {
    Plot(Drawing<'a>),
    Bars(BarDrawing<'a>),
}

impl<'a> Drawn<'a> {
    pub(super) fn new(panel: &'a Panel) -> Self {
        match panel {
            Panel::Plot(figure) => Self::Plot(Drawing::new(figure)),
            Panel::Bars(bars) => Self::Bars(BarDrawing::new(bars)),
        }
    }

    /// Height of the drawing in its own units.
    pub(super) fn height(&self) -> f64 {
        match self {
            Self::Plot(it) => it.height(),
            Self::Bars(it) => it.height(),
        }
    }

    /// The elements, with the upper left corner at (0, `top`).
    pub(super) fn elements(&self, top: f64) -> Markup {
        match self {
            Self::Plot(it) => it.elements(top),
            Self::Bars(it) => it.elements(top),
        }
    }
}

/// A figure with its places.
pub(super) struct Drawing<'a> {
    figure: &'a Figure,
    x: Fitted,
    y: Fitted,
}

impl<'a> Drawing<'a> {
    pub(super) fn new(figure: &'a Figure) -> Self {
        let points = || figure.series.iter().flat_map(|it| &it.points);
        Self {
            figure,
            x: Fitted::new(figure.x.scale, points().map(|it| it.0)),
            y: Fitted::new(figure.y.scale, points().map(|it| it.1)),
        }
    }

    /// Height of the drawing in its own units.
    pub(super) fn height(&self) -> f64 {
        PLOT_TOP + PLOT_HEIGHT + 58.0 + LEGEND_ROW * count(self.legend_rows())
    }

    fn legend_rows(&self) -> usize {
        self.figure.series.len().div_ceil(LEGEND_COLUMNS)
    }

    /// The elements, with the upper left corner at (0, `top`).
    pub(super) fn elements(&self, top: f64) -> Markup {
        html! {
            g transform=(format!("translate(0 {top:.0})")) {
                text.title x="12" y="22" { (self.figure.title) }
                text.quiet x="12" y="40" { (self.figure.caption) }
                (self.grid())
                @for (index, mark) in self.figure.marks.iter().enumerate() {
                    (self.mark(index, mark))
                }
                @for (index, series) in self.figure.series.iter().enumerate() {
                    (self.series(index, series))
                    (self.legend(index, series))
                }
            }
        }
    }

    fn grid(&self) -> Markup {
        let bottom = PLOT_TOP + PLOT_HEIGHT;
        let right = WIDTH - RIGHT;
        let at = |tick: &Tick| format!("{:.1}", column(tick.at));
        let up = |tick: &Tick| format!("{:.1}", row(tick.at));
        html! {
            @for tick in self.y.ticks() {
                line.grid x1=(LEFT) x2=(right) y1=(up(&tick)) y2=(up(&tick)) {}
                text.quiet text-anchor="end" dy="4" x=(LEFT - 6.0) y=(up(&tick)) { (tick.label) }
            }
            @for tick in self.x.ticks() {
                line.grid x1=(at(&tick)) x2=(at(&tick)) y1=(bottom) y2=(bottom + 5.0) {}
                text.quiet text-anchor="middle" x=(at(&tick)) y=(bottom + 20.0) { (tick.label) }
            }
            rect.grid x=(LEFT) y=(PLOT_TOP) width=(right - LEFT) height=(PLOT_HEIGHT) {}
            text.quiet text-anchor="middle" x=((LEFT + right) / 2.0) y=(bottom + 38.0) {
                (self.figure.x.label)
            }
            text.quiet text-anchor="middle"
                transform=(format!("translate(14 {:.0}) rotate(-90)", PLOT_TOP + PLOT_HEIGHT / 2.0)) {
                (self.figure.y.label)
            }
        }
    }

    fn mark(&self, index: usize, mark: &Mark) -> Markup {
        let label = PLOT_TOP + 14.0 + 14.0 * count(index % MARK_ROWS);
        html! {
            @if let Some(place) = self.x.place(mark.at) {
                line.mark x1=(format!("{:.1}", column(place))) x2=(format!("{:.1}", column(place)))
                    y1=(PLOT_TOP) y2=(PLOT_TOP + PLOT_HEIGHT) {}
                // Behind the line where there is no room before it.
                @if place < 0.3 {
                    text.quiet x=(format!("{:.1}", column(place) + 4.0)) y=(label) { (mark.label) }
                } @else {
                    text.quiet text-anchor="end" x=(format!("{:.1}", column(place) - 4.0)) y=(label) {
                        (mark.label)
                    }
                }
            }
        }
    }

    /// The places of a series's points that have one.
    fn places(&self, series: &Series) -> Vec<(f64, f64)> {
        let place = |&(x, y): &(f64, f64)| Some((column(self.x.place(x)?), row(self.y.place(y)?)));
        series.points.iter().filter_map(place).collect()
    }

    fn series(&self, index: usize, series: &Series) -> Markup {
        let places = self.places(series);
        html! {
            @match series.kind {
                SeriesKind::Line => {
                    polyline class=(format!("series c{}", index % LOOKS))
                        stroke-dasharray=(DASHES[index % LOOKS]) points=(path(&places)) {}
                }
                SeriesKind::Dots => @for at in places { (dot(index, at)) },
            }
        }
    }

    fn legend(&self, index: usize, series: &Series) -> Markup {
        let width = (WIDTH - LEFT - RIGHT) / count(LEGEND_COLUMNS);
        let x = LEFT + width * count(index % LEGEND_COLUMNS);
        let top = PLOT_TOP + PLOT_HEIGHT + 58.0;
        let y = top + LEGEND_ROW * count(index / LEGEND_COLUMNS);
        html! {
            @match series.kind {
                SeriesKind::Line => {
                    line class=(format!("series c{}", index % LOOKS))
                        stroke-dasharray=(DASHES[index % LOOKS])
                        x1=(x) x2=(x + 26.0) y1=(y) y2=(y) {}
                }
                SeriesKind::Dots => (dot(index, (x + 13.0, y))),
            }
            text x=(x + 32.0) y=(y + 5.0) { (series.name) }
        }
    }
}

/// A marker: circles, squares and diamonds in turn.
fn dot(index: usize, (x, y): (f64, f64)) -> Markup {
    let class = format!("dot c{}", index % LOOKS);
    html! {
        @match index % 3 {
            0 => circle class=(class) cx=(format!("{x:.1}")) cy=(format!("{y:.1}")) r="4" {},
            1 => rect class=(class) x=(format!("{:.1}", x - 3.5)) y=(format!("{:.1}", y - 3.5))
                width="7" height="7" {},
            _ => path class=(class) d=(format!("M{x:.1} {:.1}l5 5l-5 5l-5 -5z", y - 5.0)) {},
        }
    }
}

fn path(places: &[(f64, f64)]) -> String {
    let words: Vec<_> = places
        .iter()
        .map(|(x, y)| format!("{x:.1},{y:.1}"))
        .collect();
    words.join(" ")
}

fn column(place: f64) -> f64 {
    LEFT + place * (WIDTH - LEFT - RIGHT)
}

fn row(place: f64) -> f64 {
    PLOT_TOP + (1.0 - place) * PLOT_HEIGHT
}

/// A small number of rows or columns.
#[expect(clippy::cast_precision_loss, reason = "a handful")]
pub(super) fn count(number: usize) -> f64 {
    number as f64
}
