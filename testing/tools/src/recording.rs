//! A demo's output as a picture of a terminal: SVG with lines as text. They appear one after the other, or all at once
//! if the viewer does not animate or prefers reduced motion.

use std::time::Duration;

/// The width of the terminal, and of the demos' output.
pub const COLUMNS: usize = 80;
/// The width of a character and height of a line, in pixels at font size 13.
const ADVANCE: f64 = 7.83;
const LINE: usize = 18;
const MARGIN: usize = 16;
const BAR: usize = 28;
/// The longest wait between lines, in seconds; longer ones are shortened.
const MAX_WAIT: f64 = 1.2;
/// Where a step's middle column begins and ends; see `term::Timeline`.
const AT: usize = 9;
const WHAT: usize = 43;

/// A line, and when it was printed.
#[derive(Clone, Debug)]
pub struct Line {
    pub at: Duration,
    pub text: String,
}

/// Returns the picture of these lines, titled `title`.
pub fn svg(title: &str, lines: &[Line]) -> String {
    let width = (COLUMNS as f64 * ADVANCE).ceil() as usize + 2 * MARGIN;
    let height = BAR + lines.len() * LINE + 2 * MARGIN;
    let title = escaped(title);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-size=\"13\" role=\"img\" \
         font-family=\"ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n\
         <rect class=\"window\" width=\"{width}\" height=\"{height}\" rx=\"8\"/>\n"
    );
    for (index, colour) in ["#ff5f56", "#ffbd2e", "#27c93f"].iter().enumerate() {
        let x = MARGIN + 4 + index * 20;
        svg += &format!("<circle cx=\"{x}\" cy=\"16\" r=\"6\" fill=\"{colour}\"/>\n");
    }
    let middle = width / 2;
    svg += &format!(
        "<text class=\"dim\" x=\"{middle}\" y=\"20\" text-anchor=\"middle\">{title}</text>\n"
    );
    let (mut shown, mut before) = (0.0, Duration::ZERO);
    for (index, line) in lines.iter().enumerate() {
        shown += (line.at.saturating_sub(before)).as_secs_f64().min(MAX_WAIT);
        before = line.at;
        let y = BAR + MARGIN + index * LINE + 4;
        if !line.text.is_empty() {
            let spans = spans(&line.text, index == 0);
            svg += &format!(
                "<text class=\"l\" xml:space=\"preserve\" x=\"{MARGIN}\" y=\"{y}\" style=\"animation-delay:{shown:.1}s\">{spans}</text>\n"
            );
        }
    }
    svg + "</svg>\n"
}

const STYLE: &str = "\
.window { fill: #0d1117; stroke: #30363d; }
text { fill: #e6edf3; white-space: pre; } .dim { fill: #8b949e; } .seen { fill: #56d364; } .head { font-weight: bold; } .alarm { fill: #f0c674; font-weight: bold; }
.l { animation: appear 1ms steps(1) both; }
@keyframes appear { from { opacity: 0; } to { opacity: 1; } }
@media (prefers-reduced-motion: reduce) { .l { animation: none; } }
";

/// Returns a line with its colors.
fn spans(text: &str, first: bool) -> String {
    let span =
        |class: &str, text: &str| format!("<tspan class=\"{class}\">{}</tspan>", escaped(text));
    let byte = |column: usize| text.char_indices().nth(column).map_or(text.len(), |(byte, _)| byte);
    let is_head = first || ["Measured", "kubectl", "$"].iter().any(|it| text.starts_with(it));
    if is_head {
        span("head", text)
    } else if is_step(text) {
        let (at, what) = (byte(AT), byte(WHAT));
        let what_class = if text.contains("EMPTY") { "alarm" } else { "what" };
        span("dim", &text[..at]) + &span(what_class, &text[at..what]) + &span("seen", &text[what..])
    } else if is_wrapped(text) {
        span("seen", text)
    } else {
        escaped(text)
    }
}

/// Returns whether a line begins a step, such as `  0.1 s  what happens`.
fn is_step(text: &str) -> bool {
    let time = text.get(..AT).and_then(|time| time.strip_suffix(" s  "));
    time.is_some_and(|time| time.trim_start().parse::<f64>().is_ok())
}

/// Returns whether a line has only the result of a step.
fn is_wrapped(text: &str) -> bool {
    text.len() > AT && text.starts_with(&" ".repeat(AT)) && !text.starts_with(&" ".repeat(AT + 1))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Returns the lines of such a picture.
pub fn lines(svg: &str) -> Vec<String> {
    let texts = svg.split("<text class=\"l\"").skip(1).filter_map(|rest| {
        let text = rest.split_once('>')?.1.split_once("</text>")?.0;
        let plain: String =
            text.split('<').map(|part| part.rsplit('>').next().unwrap_or_default()).collect();
        Some(plain.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
    });
    texts.collect()
}

/// Returns what two runs have in common: no numbers with units, no padding, no wrapped or empty lines.
pub fn in_common(lines: &[String]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for line in lines.iter().filter(|line| !line.is_empty()) {
        let words = line.split_whitespace().map(|word| match word {
            word if word.contains(|c: char| c.is_ascii_digit()) => "#",
            "ms" | "s" | "s," | "s;" | "ms," | "ms;" => "#",
            word => word,
        });
        let mut words: Vec<&str> = words.collect();
        words.dedup();
        let words = words.join(" ");
        match all.last_mut() {
            Some(last) if is_wrapped(line) => *last += &format!(" {words}"),
            _ => all.push(words),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(lines: &[&str]) -> Vec<String> {
        lines.iter().map(|line| (*line).to_owned()).collect()
    }

    #[test]
    fn lines_are_those_of_the_picture() {
        let texts = strings(&[
            "A <demo> & more",
            "  0.1 s  It starts                         in 3 ms",
            "x",
        ]);
        let all = texts.iter().map(|text| Line { at: Duration::ZERO, text: text.clone() });
        assert_eq!(lines(&svg("a", &all.collect::<Vec<_>>())), texts);
    }

    #[test]
    fn runs_with_other_times_have_all_in_common() {
        let one = strings(&["  0.1 s  It starts    ready 2.01 s later, 4 writes"]);
        let other = strings(&[" 10.1 s  It starts", "         ready 999 ms later, 4 writes"]);
        assert_eq!(in_common(&one), in_common(&other));
        assert_ne!(in_common(&one), in_common(&strings(&["  0.1 s  It ends    ready 2 s later"])));
    }
}
