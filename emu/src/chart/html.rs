//! HTML: a page that needs no other file, with the numbers of each figure in a table below it.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::draw::{Drawn, WIDTH};
use super::style::{FIGURE, PAGE};
use super::{Exporter, Panel, Sheet, Table};

/// One self-contained HTML page.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Html;

impl Exporter for Html {
    fn export(&self, sheet: &Sheet) -> String {
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    title { (sheet.title) }
                    style { (PreEscaped(PAGE)) (PreEscaped(FIGURE)) }
                }
                body {
                    h1 { (sheet.title) }
                    p { (sheet.lead) }
                    @for figure in &sheet.figures { (one(figure)) }
                    @for note in &sheet.notes { p { (note) } }
                }
            }
        };
        page.into_string() + "\n"
    }
}

fn one(panel: &Panel) -> Markup {
    let drawing = Drawn::new(panel);
    let (title, words, numbers): (_, &[String], _) = match panel {
        Panel::Plot(it) => (&it.title, &[], &it.table),
        Panel::Bars(it) => (&it.title, &it.words, &it.table),
    };
    let height = drawing.height();
    html! {
        figure {
            svg.chart xmlns="http://www.w3.org/2000/svg" role="img"
                viewBox=(format!("0 0 {WIDTH:.0} {height:.0}")) aria-label=(title) {
                (drawing.elements(0.0))
            }
            figcaption {
                @for sentence in words { p { (sentence) } }
                details open {
                    summary { "Numbers" }
                    div.scroll { (table(numbers)) }
                }
            }
        }
    }
}

fn table(table: &Table) -> Markup {
    html! {
        table {
            thead { tr { @for cell in &table.head { th scope="col" { (cell) } } } }
            tbody { @for row in &table.rows { tr { @for cell in row { td { (cell) } } } } }
        }
    }
}
