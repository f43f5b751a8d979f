//! The frame of all charts with two axes.

use super::svg::{Anchor, Svg};

const WIDTH: f64 = 360.0;
const HEIGHT: f64 = 248.0;
pub(super) const LEFT: f64 = 52.0;
pub(super) const RIGHT: f64 = 314.0;
pub(super) const TOP: f64 = 34.0;
const BOTTOM: f64 = 200.0;

/// A drawing with a plot area; positions are shares of the axes, from 0 to 1.
pub(super) struct Frame {
    pub(super) svg: Svg,
}

impl Frame {
    pub(super) fn new(id: &str, title: &str, description: &str, x_unit: &str) -> Frame {
        let mut svg = Svg::new(id, WIDTH, HEIGHT, title, description);
        svg.text("unit", ((LEFT + RIGHT) / 2.0, BOTTOM + 38.0), Anchor::Middle, x_unit);
        Frame { svg }
    }

    pub(super) fn x(share: f64) -> f64 {
        LEFT + (RIGHT - LEFT) * share
    }

    pub(super) fn y(share: f64) -> f64 {
        BOTTOM - (BOTTOM - TOP) * share
    }

    /// A tick below the plot.
    pub(super) fn x_tick(&mut self, share: f64, label: &str) {
        let x = Frame::x(share);
        self.svg.line("axis", (x, BOTTOM), (x, BOTTOM + 4.0));
        self.svg.text("tick", (x, BOTTOM + 18.0), Anchor::Middle, label);
    }

    /// A line across the plot, with its value on the left.
    pub(super) fn grid(&mut self, share: f64, label: &str) {
        let y = Frame::y(share);
        let class = if share == 0.0 { "axis" } else { "grid" };
        self.svg.line(class, (LEFT, y), (RIGHT, y));
        self.svg.text("tick", (LEFT - 7.0, y + 4.0), Anchor::End, label);
    }

    /// The unit of the values on the left.
    pub(super) fn left_unit(&mut self, unit: &str) {
        self.svg.text("unit", (LEFT - 7.0, TOP - 16.0), Anchor::End, unit);
    }

    /// A chart without data states that.
    pub(super) fn empty(mut self, why: &str) -> String {
        self.svg.text("note", ((LEFT + RIGHT) / 2.0, (TOP + BOTTOM) / 2.0), Anchor::Middle, why);
        self.svg.finish()
    }
}
