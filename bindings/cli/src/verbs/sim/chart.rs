//! Charts as SVG text, by a few lines of our own: lines, boxes, and what stands in them.
//!
//! Used by `report`. Colours are classes that the page's style knows, so that a
//! page is dark or light as its reader is. It knows no jobs and no units.

use std::fmt::Write;

/// Colours that are told apart; the style has as many.
pub const COLOURS: usize = 8;

const WIDTH: f64 = 960.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 10.0;
/// Below the area: the ticks, and the title where there is one.
const TICKS: f64 = 24.0;
const TITLE: f64 = 20.0;
/// What a letter of a tick or a label takes at most; most take less.
const LETTER: f64 = 6.5;
/// The least height of a box with a label.
const LINE: f64 = 13.0;

/// How an axis is divided.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scale {
    /// Evenly, from the first to the last.
    Even(f64, f64),
    /// By tens; both above 0.
    Log(f64, f64),
}

/// An axis with what stands beside it.
#[derive(Clone, Debug)]
pub struct Axis {
    /// With the unit.
    pub title: String,
    /// From where to where.
    pub scale: Scale,
    /// What stands where.
    pub ticks: Vec<(f64, String)>,
}

impl Axis {
    /// Even, from 0, with round numbers.
    pub fn from_zero(title: impl Into<String>, most: f64) -> Axis {
        let most = if most > 0.0 { most * 1.04 } else { 1.0 };
        let step = round_step(most / 6.0);
        let ticks = (0..10).map(|at| f64::from(at) * step);
        let ticks = ticks.take_while(|tick| *tick <= most);
        Axis {
            title: title.into(),
            scale: Scale::Even(0.0, most),
            ticks: ticks.map(|tick| (tick, number(tick))).collect(),
        }
    }

    /// By tens from 1, below which is the edge.
    pub fn by_tens(title: impl Into<String>, most: f64) -> Axis {
        let most = most.max(10.0) * 1.1;
        let tens = (0..18).map(|power| 10_f64.powi(power));
        let tens = tens.take_while(|tick| *tick <= most);
        Axis {
            title: title.into(),
            scale: Scale::Log(1.0, most),
            ticks: tens.map(|tick| (tick, number(tick))).collect(),
        }
    }

    /// Of a hundred.
    pub fn percent(title: impl Into<String>) -> Axis {
        let ticks = [0.0, 25.0, 50.0, 75.0, 100.0];
        let ticks = ticks.map(|tick| (tick, number(tick)));
        Axis::even(title, (0.0, 104.0), ticks.to_vec())
    }

    /// These ticks, even.
    pub fn even(
        title: impl Into<String>,
        (from, until): (f64, f64),
        ticks: Vec<(f64, String)>,
    ) -> Axis {
        Axis {
            title: title.into(),
            scale: Scale::Even(from, until),
            ticks,
        }
    }

    /// Where a value is, from 0 to 1.
    fn part(&self, value: f64) -> f64 {
        let (from, until, value) = match self.scale {
            Scale::Even(from, until) => (from, until, value),
            Scale::Log(from, until) => (from.ln(), until.ln(), value.max(from).ln()),
        };
        match until > from {
            true => ((value - from) / (until - from)).clamp(0.0, 1.0),
            false => 0.0,
        }
    }
}

/// A name in so many parts of the width of a chart, cut where it is longer.
pub fn fitting(name: &str, parts: usize) -> String {
    let room = (WIDTH - LEFT - RIGHT) / parts.max(1) as f64;
    cut(name, (room / LETTER) as usize, End::First)
}

/// A name in the room beside a chart: the ends of nodes' names tell them apart.
pub fn beside(name: &str) -> String {
    cut(name, ((LEFT - 6.0) / LETTER) as usize, End::Last)
}

/// Which end of a name is kept.
enum End {
    First,
    Last,
}

fn cut(name: &str, most: usize, end: End) -> String {
    let letters = name.chars().count();
    let kept = most.saturating_sub(1);
    match end {
        _ if letters <= most => name.to_owned(),
        End::First => name.chars().take(kept).chain(['…']).collect(),
        End::Last => {
            let last = name.chars().skip(letters - kept);
            ['…'].into_iter().chain(last).collect()
        }
    }
}

/// 1, 2 or 5 times a power of ten, at least so much.
pub fn round_step(least: f64) -> f64 {
    let power = 10_f64.powf(least.max(1e-9).log10().floor());
    let times = [1.0, 2.0, 5.0, 10.0];
    let enough = times.into_iter().find(|times| times * power >= least);
    enough.unwrap_or(10.0) * power
}

/// A number as a tick shows it.
pub fn number(value: f64) -> String {
    match value.abs() {
        large if large >= 1e6 => format!("{}M", short(value / 1e6)),
        large if large >= 1e4 => format!("{}k", short(value / 1e3)),
        _ => short(value),
    }
}

fn short(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A text that may stand in HTML and in attributes.
pub fn safe(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            letter if letter.is_control() => safe.push(' '),
            letter => safe.push(letter),
        }
    }
    safe
}

/// A chart being drawn.
pub struct Chart {
    x: Axis,
    y: Axis,
    height: f64,
    body: String,
}

impl Chart {
    /// Empty, so many units high.
    pub fn new(x: Axis, y: Axis, height: f64) -> Chart {
        let body = String::new();
        Chart { x, y, height, body }
    }

    fn at_x(&self, value: f64) -> f64 {
        LEFT + self.x.part(value) * (WIDTH - LEFT - RIGHT)
    }

    fn at_y(&self, value: f64) -> f64 {
        TOP + (1.0 - self.y.part(value)) * (self.bottom() - TOP)
    }

    fn bottom(&self) -> f64 {
        let title = if self.x.title.is_empty() { 0.0 } else { TITLE };
        self.height - TICKS - title
    }

    /// A line in steps: each value holds until the next x, the last to the right edge.
    pub fn steps(&mut self, points: &[(f64, f64)], colour: usize) {
        let path = self.stairs(points);
        let class = stroke(colour);
        let _ = writeln!(self.body, "<path class=\"{class}\" d=\"{path}\"/>");
    }

    /// Such a line with what is below it.
    pub fn filled(&mut self, points: &[(f64, f64)], colour: usize) {
        let (left, bottom) = (
            points.first().map_or(LEFT, |p| self.at_x(p.0)),
            self.bottom(),
        );
        let path = self.stairs(points);
        let fill = colour % COLOURS;
        let _ = writeln!(
            self.body,
            "<path class=\"under f{fill}\" d=\"{path}V{bottom:.1}H{left:.1}Z\"/>"
        );
        self.steps(points, colour);
    }

    fn stairs(&self, points: &[(f64, f64)]) -> String {
        let mut path = String::new();
        let mut level = String::new();
        for &(x, y) in points {
            let y = format!("{:.1}", self.at_y(y));
            if y == level {
                continue;
            }
            let x = self.at_x(x);
            let _ = match level.as_str() {
                "" => write!(path, "M{x:.1} {y}"),
                _ => write!(path, "H{x:.1}V{y}"),
            };
            level = y;
        }
        if !level.is_empty() {
            let _ = write!(path, "H{:.1}", WIDTH - RIGHT);
        }
        path
    }

    /// A box between two points, with what a pointer over it shows.
    pub fn area(&mut self, from: (f64, f64), until: (f64, f64), class: &str, said: &str) {
        let (left, right) = (self.at_x(from.0), self.at_x(until.0));
        let (low, high) = (self.at_y(from.1), self.at_y(until.1));
        let (width, height) = ((right - left).max(0.6), (low - high).max(0.6));
        let _ = write!(
            self.body,
            "<rect class=\"{class}\" x=\"{left:.1}\" y=\"{high:.1}\" width=\"{width:.1}\" height=\"{height:.1}\">"
        );
        let _ = writeln!(self.body, "<title>{}</title></rect>", safe(said));
    }

    /// What stands in a box, if there is room for it.
    pub fn label(&mut self, from: (f64, f64), until: (f64, f64), said: &str) {
        let (left, right) = (self.at_x(from.0), self.at_x(until.0));
        let (low, high) = (self.at_y(from.1), self.at_y(until.1));
        let width = (said.chars().count() + 1) as f64 * LETTER;
        if right - left < width || low - high < LINE {
            return;
        }
        let (x, y) = ((left + right) / 2.0, (low + high) / 2.0 + 4.0);
        let _ = writeln!(
            self.body,
            "<text class=\"in\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{}</text>",
            safe(said)
        );
    }

    /// A level line across.
    pub fn level(&mut self, value: f64) {
        let y = self.at_y(value);
        let right = WIDTH - RIGHT;
        let _ = writeln!(
            self.body,
            "<line class=\"g\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>"
        );
    }

    /// The whole picture; `about` is what it shows, for who cannot see it.
    pub fn svg(self, about: &str) -> String {
        let (height, about) = (self.height, safe(about));
        let (bottom, right) = (self.bottom(), WIDTH - RIGHT);
        let mut svg = format!(
            "<div class=\"wide\" tabindex=\"0\">\
             <svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{about}\">\n"
        );
        for (value, said) in &self.x.ticks {
            let (x, said) = (self.at_x(*value), safe(said));
            let _ = writeln!(
                svg,
                "<line class=\"g\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{bottom}\"/>\
                 <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{said}</text>",
                bottom + 15.0
            );
        }
        for (value, said) in &self.y.ticks {
            let (y, said) = (self.at_y(*value), safe(said));
            let _ = writeln!(
                svg,
                "<line class=\"g\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{said}</text>",
                LEFT - 6.0,
                y + 4.0
            );
        }
        svg += &self.body;
        let (x, y) = ((LEFT + right) / 2.0, (TOP + bottom) / 2.0);
        let _ = writeln!(
            svg,
            "<text class=\"t\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\
             <text class=\"t\" transform=\"translate(14 {y:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n</svg></div>",
            height - 8.0,
            safe(&self.x.title),
            safe(&self.y.title),
        );
        svg
    }
}

/// The classes of a line: colours that come again are dashed.
pub fn stroke(colour: usize) -> String {
    let dash = if colour < COLOURS { "" } else { " dash" };
    format!("l c{}{dash}", colour % COLOURS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_as_many_as_can_be_read() {
        let ticks = |most| -> Vec<String> {
            let axis = Axis::from_zero("jobs", most);
            axis.ticks.into_iter().map(|(_, said)| said).collect()
        };
        assert_eq!(ticks(6.0), ["0", "2", "4", "6"]);
        assert_eq!(ticks(100.0), ["0", "20", "40", "60", "80", "100"]);
        assert_eq!(ticks(80_000.0), ["0", "20k", "40k", "60k", "80k"]);
        assert_eq!(ticks(0.0), ["0", "0.2", "0.4", "0.6", "0.8", "1"]);
        let tens = Axis::by_tens("jobs", 1002.0).ticks;
        assert_eq!(tens.last(), Some(&(1000.0, "1000".to_owned())));
    }

    #[test]
    fn a_long_name_is_cut_where_it_says_least() {
        assert_eq!(fitting("physics/ann", 4), "physics/ann");
        assert_eq!(fitting("physics/ann", 16), "physics…");
        assert_eq!(beside("node12"), "node12");
        assert_eq!(beside("gpu-node-0017"), "…de-0017");
    }

    #[test]
    fn a_line_says_only_where_it_changes() {
        let axis = |most| Axis::even("", (0.0, most), Vec::new());
        let mut chart = Chart::new(axis(4.0), axis(1.0), 100.0);
        chart.steps(&[(0.0, 1.0), (1.0, 1.0), (2.0, 0.0), (3.0, 0.0)], 0);
        let path = format!("M{LEFT:.1} {TOP:.1}H504.0V{:.1}H944.0", 100.0 - TICKS);
        assert!(chart.body.contains(&path), "{}", chart.body);
    }
}
