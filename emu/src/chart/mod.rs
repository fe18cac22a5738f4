//! Figures: series of points over two axes, each with its numbers in a table.
//!
//! A [`Sheet`] says what is shown; an [`Exporter`] says how. Both there are, [`Svg`] and [`Html`],
//! write one text that needs nothing else: no script, no font, no file beside it. Colours follow
//! the reader's light or dark setting, print is always light, and series differ in dash and marker
//! too, so that they can be told apart without colour.
//!
//! ```text
//! bars    bars beside each other as SVG elements
//! scale   values to places, and where the ticks are
//! draw    one figure as SVG elements
//! style   the style sheet that both formats carry
//! ```

mod bars;
mod draw;
mod html;
mod scale;
mod style;
mod svg;

pub use html::Html;
pub use scale::Scale;
pub use svg::Svg;

/// A format of figures.
pub trait Exporter {
    /// The whole sheet in this format. The same sheet gives the same text.
    fn export(&self, sheet: &Sheet) -> String;
}

/// Figures that belong together.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Sheet {
    /// What they are about, in a few words.
    pub title: String,
    /// A sentence or two for the reader who knows nothing yet.
    pub lead: String,
    /// The figures, in the order in which they are read.
    pub figures: Vec<Panel>,
    /// What the figures rest on, one sentence each.
    pub notes: Vec<String>,
}

/// A figure of either kind.
#[derive(Clone, PartialEq, Debug)]
pub enum Panel {
    /// Series over two axes.
    Plot(Figure),
    /// Bars from the left.
    Bars(Bars),
}

/// Quantities as bars from the left, one below the other.
#[derive(Clone, PartialEq, Debug)]
pub struct Bars {
    /// What is seen.
    pub title: String,
    /// What is to be known beside it, in one line.
    pub caption: String,
    /// The axis to the right.
    pub axis: Axis,
    /// The bars, from the top.
    pub bars: Vec<Bar>,
    /// Names of the parts that bars are made of; none if all bars are whole.
    pub parts: Vec<String>,
    /// What the diamonds are that stand on bars, if any do.
    pub mark: Option<String>,
    /// What the figure says, one sentence each.
    pub words: Vec<String>,
    /// The numbers.
    pub table: Table,
}

/// One bar.
#[derive(Clone, PartialEq, Debug)]
pub struct Bar {
    /// Its name.
    pub name: String,
    /// Its parts from the left: which one it is (an index into [`Bars::parts`]) and how long. On a
    /// logarithmic scale only a bar of one part means anything.
    pub parts: Vec<(usize, f64)>,
    /// What is written behind it.
    pub label: String,
    /// How far its end may be off: drawn as a whisker.
    pub interval: Option<(f64, f64)>,
    /// A value of another origin to compare with: drawn as a diamond.
    pub mark: Option<f64>,
}

/// Series over two axes.
#[derive(Clone, PartialEq, Debug)]
pub struct Figure {
    /// What is seen.
    pub title: String,
    /// What is to be known beside it, in one line.
    pub caption: String,
    /// The axis to the right.
    pub x: Axis,
    /// The axis upwards.
    pub y: Axis,
    /// What is drawn.
    pub series: Vec<Series>,
    /// Places on the x axis that have a name.
    pub marks: Vec<Mark>,
    /// The numbers.
    pub table: Table,
}

/// An axis.
#[derive(Clone, PartialEq, Debug)]
pub struct Axis {
    /// What it measures, with the unit.
    pub label: String,
    /// How values are placed on it.
    pub scale: Scale,
}

/// Points of one kind.
#[derive(Clone, PartialEq, Debug)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// How its points are shown.
    pub kind: SeriesKind,
    /// x and y of each point, by x. On a logarithmic scale, points that are not positive are left
    /// out.
    pub points: Vec<(f64, f64)>,
}

/// How points are shown.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum SeriesKind {
    /// Joined by a line: what the model says.
    Line,
    /// By themselves: what was measured.
    Dots,
}

/// A place on the x axis that has a name.
#[derive(Clone, PartialEq, Debug)]
pub struct Mark {
    /// Where.
    pub at: f64,
    /// Its name, short.
    pub label: String,
}

/// Numbers in rows and columns.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Table {
    /// What stands above the columns.
    pub head: Vec<String>,
    /// The rows, each as long as the head.
    pub rows: Vec<Vec<String>>,
}

#[cfg(test)]
mod tests;
