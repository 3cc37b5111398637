//! Plots of docs/figures.md: horizontal bars as SVG, for light and dark pages. A picture is made from the tables alone,
//! so that a test finds one that is older than they are.

use crate::figures::{Row, block, number, rows};

/// Bars under one heading, each with its name and value.
struct Group {
    heading: &'static str,
    bars: Vec<(String, f64)>,
}

const WIDTH: usize = 720;
const LABELS: usize = 280;
const VALUES: usize = 90;
const BAR: usize = 18;
const STEP: usize = 26;
const HEADING: usize = 34;

/// The pictures by their names in docs/img.
pub fn all(figures: &str) -> [(&'static str, String); 3] {
    [("footprint", footprint(figures)), ("memory", memory(figures)), ("lag", lag(figures))]
}

fn footprint(figures: &str) -> String {
    let rows = rows(block(figures, "footprint").expect("the footprint"));
    let bars = rows.iter().map(|row| (row[0].replace('`', ""), number(&row[2]))).collect();
    let heading = "Memory on each cluster";
    svg("Memory of agents on each cluster, in MiB", "MiB", &[Group { heading, bars }])
}

/// The rows of bench's table whose head begins so.
fn table(figures: &str, head: &str) -> Vec<Row> {
    let bench = block(figures, "bench").expect("the tables of bench");
    let (_, rest) = bench.split_once(&format!("| {head}")).expect("a table of bench");
    rows(&format!("| {}", rest.split("\n\n").next().unwrap_or_default()))
}

fn memory(figures: &str) -> String {
    let bars = |head, column: usize, what: &str| {
        let rows = table(figures, head);
        rows.iter().map(|row| (format!("{} {what}", row[0]), number(&row[column]))).collect()
    };
    let groups = [
        Group { heading: "One remote", bars: bars("pairs in sync ", 1, "pairs in sync") },
        Group {
            heading: "At rest, nothing to copy",
            bars: bars("remotes, at rest ", 2, "remotes"),
        },
    ];
    svg("Memory of remote-sync, in MiB", "MiB", &groups)
}

fn lag(figures: &str) -> String {
    let rows = table(figures, "lag, ms ");
    let bars =
        |column: usize| rows.iter().map(|row| (row[0].clone(), number(&row[column]))).collect();
    let groups = [
        Group { heading: "Median until the other side has a change", bars: bars(1) },
        Group { heading: "Of which the server itself, before it tells of it", bars: bars(3) },
    ];
    svg("Lag of remote-sync, in ms", "ms", &groups)
}

fn svg(title: &str, unit: &str, groups: &[Group]) -> String {
    let count: usize = groups.iter().map(|group| group.bars.len()).sum();
    let height = 36 + groups.len() * HEADING + count * STEP;
    let most = groups.iter().flat_map(|group| &group.bars).map(|bar| bar.1).fold(0.0, f64::max);
    let room = (WIDTH - LABELS - VALUES - 16) as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-size=\"13\" role=\"img\" \
         font-family=\"-apple-system, 'Segoe UI', Helvetica, Arial, 'DejaVu Sans', sans-serif\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n\
         <rect class=\"page\" width=\"{WIDTH}\" height=\"{height}\" rx=\"8\"/>\n\
         <text class=\"title\" x=\"16\" y=\"26\">{title}</text>\n"
    );
    let mut y = 36;
    for group in groups {
        svg +=
            &format!("<text class=\"note\" x=\"16\" y=\"{}\">{}</text>\n", y + 20, group.heading);
        y += HEADING;
        for (name, value) in &group.bars {
            let width = (value / most * room).max(1.0);
            let (text, end) = (y + 14, LABELS as f64 + width + 8.0);
            svg += &format!(
                "<text x=\"{}\" y=\"{text}\" text-anchor=\"end\">{}</text>\n\
                 <rect class=\"bar\" x=\"{LABELS}\" y=\"{y}\" width=\"{width:.1}\" height=\"{BAR}\" rx=\"3\"/>\n\
                 <text x=\"{end:.1}\" y=\"{text}\">{value} {unit}</text>\n",
                LABELS - 10,
                shortened(name),
            );
            y += STEP;
        }
    }
    svg + "</svg>\n"
}

const STYLE: &str = "\
.page { fill: #ffffff; } text { fill: #17202b; } .title { font-weight: 600; } .note { fill: #4b5a6b; }
.bar { fill: #2563eb; }
@media (prefers-color-scheme: dark) {
  .page { fill: #0d1117; } text { fill: #e6edf3; } .note { fill: #9fb0c0; } .bar { fill: #5b9bff; }
}
";

/// What fits beside a bar: nothing in brackets.
fn shortened(name: &str) -> &str {
    name.split(" (").next().unwrap_or(name)
}
