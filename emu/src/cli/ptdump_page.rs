//! The drawn dump: a bar of ranges, coloured by what they allow, and the same in a table.

use maud::{DOCTYPE, PreEscaped, html};
use mmuscope_models::explain::Range;

use super::ptdump::{Answer, bytes, leaves};

/// Ranges that are drawn and listed; a page with more is of no use to anyone.
const MOST: usize = 5000;
/// Width of the drawing and height of a bar, in its own units.
const WIDTH: f64 = 1000.0;

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1b1f24;--soft:#667;--paper:#fbfaf8;--line:#dcd9d3;\
--rw:#2f6db3;--ro:#7a8794;--rx:#3c8d5a;--wx:#c8372d;--none:#c9b26a}\
@media(prefers-color-scheme:dark){:root{--ink:#e8e6e3;--soft:#9aa3ad;--paper:#15181c;--line:#333a42;\
--rw:#6aa5e8;--ro:#8b97a3;--rx:#66bd87;--wx:#ff6b60;--none:#d9c27c}}\
body{font:15px/1.5 system-ui,sans-serif;background:var(--paper);color:var(--ink);max-width:72rem;margin:2.5rem auto;padding:0 1.5rem}\
h1{font-size:1.5rem;margin:0}h2{font-size:1.05rem;margin:2.2rem 0 .5rem}p{color:var(--soft);margin:.3rem 0}\
svg{width:100%;height:auto;display:block}svg text{font:11px ui-monospace,monospace;fill:var(--soft)}\
.rw{fill:var(--rw)}.ro{fill:var(--ro)}.rx{fill:var(--rx)}.wx{fill:var(--wx)}.none{fill:var(--none)}.rail{fill:var(--line)}\
.scroll{overflow-x:auto}table{border-collapse:collapse;font:12.5px/1.6 ui-monospace,monospace;white-space:nowrap}\
th{text-align:left;color:var(--soft);font-weight:500}td,th{padding:.1rem 1.1rem .1rem 0;border-bottom:1px solid var(--line)}\
td:nth-child(3){text-align:right}.key{display:inline-block;width:.8em;height:.8em;border-radius:2px;margin:0 .35em 0 1em}\
.k-rw{background:var(--rw)}.k-ro{background:var(--ro)}.k-rx{background:var(--rx)}.k-wx{background:var(--wx)}\
.bad{color:var(--wx);font-weight:600}";

/// The colour class of a range: what its most permitted privilege may do.
fn class(it: &Range) -> &'static str {
    let has = |letter| it.user.contains(letter) || it.supervisor.contains(letter);
    let both = |rights: &str| rights.contains('w') && rights.contains('x');
    if both(&it.user) || both(&it.supervisor) {
        "wx"
    } else if has('x') {
        "rx"
    } else if has('w') {
        "rw"
    } else if has('r') {
        "ro"
    } else {
        "none"
    }
}

/// A bar: where it begins, how wide it is, and its range.
struct Bar<'a> {
    x: f64,
    width: f64,
    range: &'a Range,
}

/// Lays `ranges` side by side. Mapped memory is a speck in the address space, so width grows with
/// the logarithm of the size and a hole is a gap of constant width.
fn layout(ranges: &[Range]) -> Vec<Bar<'_>> {
    let mut at = 0.0;
    let mut end = None;
    let mut bars = Vec::new();
    for range in ranges {
        if end.is_some_and(|end| end != range.va) {
            at += 4.0;
        }
        let width = f64::from(range.bytes.ilog2().saturating_sub(11));
        bars.push(Bar {
            x: at,
            width,
            range,
        });
        at += width;
        end = Some(range.va.wrapping_add(range.bytes));
    }
    let scale = if at > 0.0 { WIDTH / at } else { 1.0 };
    for bar in &mut bars {
        bar.x *= scale;
        bar.width *= scale;
    }
    bars
}

/// The page.
pub fn page(answer: &Answer) -> String {
    let dump = &answer.dump;
    let shown = &dump.ranges[..dump.ranges.len().min(MOST)];
    let split = shown
        .iter()
        .position(|it| it.va >> 63 == 1)
        .unwrap_or(shown.len());
    let (lower, upper) = shown.split_at(split);
    let title = format!("Page tables of {}", answer.image);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { (title) }
                p { (answer.arch) ", " (dump.ranges.len()) " ranges in " (dump.tables) " tables, " (dump.findings_total) " findings" }
                @if !answer.assumed.is_empty() { p { "Assumed: " (answer.assumed.join(", ")) } }
                p {
                    span.key.k-rw {} "writable" span.key.k-rx {} "executable"
                    span.key.k-ro {} "read-only" span.key.k-wx {} "writable and executable"
                }
                @for (name, part) in [("Lower half", lower), ("Upper half", upper)] {
                    @if !part.is_empty() {
                        h2 { (name) }
                        svg viewBox="0 0 1000 74" role="img" aria-label=(name) {
                            rect.rail x="0" y="47" width="1000" height="2" {}
                            @for bar in layout(part) {
                                rect class=(class(bar.range)) x=(format!("{:.2}", bar.x)) y="8" rx="1"
                                    width=(format!("{:.2}", (bar.width - 0.6).max(0.4))) height="36" {
                                    title { (format!("{:#x}, {}, {}, user {}, kernel {}, {}", bar.range.va, bytes(bar.range.bytes), leaves(bar.range), bar.range.user, bar.range.supervisor, bar.range.attributes)) }
                                }
                            }
                            text x="0" y="66" { (part.first().map_or_else(String::new, |it| format!("{:#x}", it.va))) }
                            text x="1000" y="66" text-anchor="end" { (part.last().map_or_else(String::new, |it| format!("{:#x}", it.va.wrapping_add(it.bytes)))) }
                        }
                    }
                }
                p { "Width grows with the logarithm of a range's size; a hole in the address space is a gap." }
                @if !dump.findings.is_empty() {
                    h2 { "Findings" }
                    div.scroll { table {
                        thead { tr { th { "address" } th { "kind" } th { "what" } } }
                        tbody { @for it in dump.findings.iter().take(MOST) {
                            tr { td { (format!("{:#018x}", it.va)) } td.bad { (it.kind) } td style="text-align:left" { (it.text) } }
                        } }
                    } }
                }
                h2 { "Ranges" }
                div.scroll { table {
                    thead { tr { th { "from" } th { "to physical" } th { "size" } th { "leaves" } th { "user" } th { "kernel" } th { "attributes" } } }
                    tbody { @for it in shown {
                        tr {
                            td { (format!("{:#018x}", it.va)) } td { (format!("{:#x}", it.pa)) } td { (bytes(it.bytes)) }
                            td { (leaves(it)) } td { (it.user) } td { (it.supervisor) } td { (it.attributes) }
                        }
                    } }
                } }
                @if dump.ranges.len() > shown.len() || dump.truncated { p { "There are more ranges than are listed here." } }
            }
        }
    };
    page.into_string() + "\n"
}
