//! The style sheet that both formats carry. Series take colours that stay apart for readers who
//! see fewer of them, in a darker set for light paper and a lighter one for dark screens.

/// How many series have a look of their own; further ones begin again.
pub(super) const LOOKS: usize = 6;

/// Dashes of the lines, by series: the second sign beside the colour.
pub(super) const DASHES: [&str; LOOKS] = ["none", "7 3", "2 3", "9 3 2 3", "12 4", "4 2"];

/// The rules for a figure, to be put into a `style` element.
pub(super) const FIGURE: &str = "\
.chart{--ink:#1b1f24;--quiet:#57606a;--line:#d0d7de;--paper:#fff;\
--s0:#0b62a8;--s1:#b35900;--s2:#0a7a5c;--s3:#a0307a;--s4:#5b4bb3;--s5:#8a6d00;\
background:var(--paper);font-family:system-ui,sans-serif}\
@media(prefers-color-scheme:dark){.chart{--ink:#e6edf3;--quiet:#9aa4af;--line:#39424c;\
--paper:#0d1117;--s0:#6cb6ff;--s1:#f0a35e;--s2:#56d4a8;--s3:#f08bc8;--s4:#b6a7ff;--s5:#e3c04b}}\
@media print{.chart{--ink:#000;--quiet:#333;--line:#bbb;--paper:#fff;\
--s0:#0b62a8;--s1:#b35900;--s2:#0a7a5c;--s3:#a0307a;--s4:#5b4bb3;--s5:#8a6d00}}\
.chart text{fill:var(--ink);font-size:14px}\
.chart .title{font-size:16px;font-weight:600}\
.chart .quiet{fill:var(--quiet);font-size:12px}\
.chart .grid{stroke:var(--line);stroke-width:1;fill:none}\
.chart .mark{stroke:var(--quiet);stroke-width:1;stroke-dasharray:1 3}\
.chart .series{fill:none;stroke-width:2;stroke-linejoin:round}\
.chart .dot{stroke-width:2;fill:var(--paper)}\
.chart .c0{stroke:var(--s0)}.chart .c1{stroke:var(--s1)}.chart .c2{stroke:var(--s2)}\
.chart .c3{stroke:var(--s3)}.chart .c4{stroke:var(--s4)}.chart .c5{stroke:var(--s5)}\
.chart .f0{fill:var(--s0)}.chart .f1{fill:var(--s1)}.chart .f2{fill:var(--s2)}\
.chart .f3{fill:var(--s3)}.chart .f4{fill:var(--s4)}.chart .f5{fill:var(--s5)}\
.chart .bar{stroke:var(--paper);stroke-width:1}\
.chart .whisker{stroke:var(--ink);stroke-width:1.5;fill:none}\
.chart .diamond{stroke:var(--paper);stroke-width:1;fill:var(--ink)}\
.chart .inside{fill:var(--paper);font-size:11px}\
@media(max-width:480px){.chart text{font-size:17px}.chart .title{font-size:19px}\
.chart .quiet{font-size:15px}}";

/// The rules for the page around figures.
pub(super) const PAGE: &str = "\
:root{color-scheme:light dark;--ink:#1b1f24;--line:#d0d7de;--paper:#fff}\
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--line:#39424c;--paper:#0d1117}}\
@media print{:root{color-scheme:light;--ink:#000;--line:#bbb;--paper:#fff}\
figure{break-inside:avoid}details{display:block}}\
body{margin:0 auto;max-width:46rem;padding:1rem;background:var(--paper);color:var(--ink);\
font:1rem/1.5 system-ui,sans-serif}\
h1{font-size:1.5rem;line-height:1.2}\
figure{margin:2rem 0}\
figure svg{display:block;width:100%;height:auto}\
.scroll{overflow-x:auto}\
table{border-collapse:collapse;font-size:.85rem;font-variant-numeric:tabular-nums}\
th,td{padding:.15rem .6rem;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}\
th:first-child,td:first-child{text-align:left}";
