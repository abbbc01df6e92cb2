//! Charts as SVG text, by a few lines of our own: an area, lines, bars, boxes.
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
const BELOW: f64 = 44.0;

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
        let step = round_step(most / 4.0);
        let ticks = (0..10).map(|at| f64::from(at) * step);
        let ticks = ticks.take_while(|tick| *tick <= most);
        Axis {
            title: title.into(),
            scale: Scale::Even(0.0, most),
            ticks: ticks.map(|tick| (tick, number(tick))).collect(),
        }
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
        TOP + (1.0 - self.y.part(value)) * (self.height - TOP - BELOW)
    }

    /// A line in steps: each value holds until the next x.
    pub fn steps(&mut self, points: &[(f64, f64)], colour: usize) {
        let mut path = String::new();
        for (at, &(x, y)) in points.iter().enumerate() {
            let (x, y) = (self.at_x(x), self.at_y(y));
            let _ = match at {
                0 => write!(path, "M{x:.1} {y:.1}"),
                _ => write!(path, "H{x:.1}V{y:.1}"),
            };
        }
        self.path(&path, colour);
    }

    /// A line from point to point.
    pub fn line(&mut self, points: &[(f64, f64)], colour: usize) {
        let mut path = String::new();
        for (at, &(x, y)) in points.iter().enumerate() {
            let (x, y) = (self.at_x(x), self.at_y(y));
            let begin = if at == 0 { 'M' } else { 'L' };
            let _ = write!(path, "{begin}{x:.1} {y:.1}");
        }
        self.path(&path, colour);
    }

    fn path(&mut self, path: &str, colour: usize) {
        let colour = colour % COLOURS;
        let _ = writeln!(self.body, "<path class=\"l c{colour}\" d=\"{path}\"/>");
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
        let (bottom, right) = (height - BELOW, WIDTH - RIGHT);
        let mut svg =
            format!("<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{about}\">\n");
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
             <text class=\"t\" transform=\"translate(14 {y:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n</svg>",
            height - 8.0,
            safe(&self.x.title),
            safe(&self.y.title),
        );
        svg
    }
}
