//! SVG: the figures of a sheet below each other in one picture.

use maud::{PreEscaped, html};

use super::draw::{Drawn, WIDTH};
use super::style::FIGURE;
use super::{Exporter, Sheet};

/// Space between figures.
const GAP: f64 = 16.0;

/// One SVG picture. The tables and notes of the sheet are not in it.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Svg;

impl Exporter for Svg {
    fn export(&self, sheet: &Sheet) -> String {
        let drawings: Vec<_> = sheet.figures.iter().map(Drawn::new).collect();
        let mut height = 0.0;
        let mut placed = Vec::new();
        for drawing in &drawings {
            placed.push((height, drawing));
            height += drawing.height() + GAP;
        }
        let picture = html! {
            svg.chart xmlns="http://www.w3.org/2000/svg" role="img"
                viewBox=(format!("0 0 {WIDTH:.0} {height:.0}")) {
                title { (sheet.title) }
                desc { (sheet.lead) }
                style { (PreEscaped(FIGURE)) }
                // A picture shown by itself has no page below it.
                rect width=(WIDTH) height=(format!("{height:.0}")) style="fill:var(--paper)" {}
                @for (top, drawing) in placed { (drawing.elements(top)) }
            }
        };
        picture.into_string() + "\n"
    }
}
