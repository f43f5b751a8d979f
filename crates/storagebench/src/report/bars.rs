//! Bar charts: the best row of each profile.

use super::scale::Linear;
use super::svg::{Anchor, Svg};
use crate::text::number;

const WIDTH: f64 = 360.0;
const BAR: f64 = 14.0;
const GAP: f64 = 3.0;
const TITLE: f64 = 20.0;
const AFTER: f64 = 12.0;
/// Space for the longest value at a bar's end.
const LONGEST: f64 = 270.0;

/// A bar.
pub(super) struct Bar {
    pub(super) value: f64,
    /// Its 95 % interval.
    pub(super) interval: Option<[f64; 2]>,
    /// The index of its colour.
    pub(super) series: usize,
    /// A label of a word or two: the target.
    pub(super) name: String,
}

/// A group of bars: the targets under one profile.
pub(super) struct Group {
    pub(super) name: String,
    pub(super) bars: Vec<Bar>,
}

/// Horizontal bars in groups; `unit` is the values' unit.
pub(super) fn bars(id: &str, title: &str, unit: &str, groups: &[Group]) -> String {
    let height: f64 = groups
        .iter()
        .map(|group| TITLE + group.bars.len() as f64 * (BAR + GAP) + AFTER)
        .sum::<f64>();
    let words: Vec<String> = groups
        .iter()
        .flat_map(|group| group.bars.iter().map(move |bar| (group, bar)))
        .map(|(group, bar)| format!("{}{}: {} {unit}", group.name, bar.name, number(bar.value)))
        .collect();
    let mut svg = Svg::new(id, WIDTH, height.max(TITLE), title, &words.join("; "));
    let all = || groups.iter().flat_map(|group| &group.bars);
    let highest = all().fold(0.0, |high: f64, bar| {
        high.max(bar.value).max(bar.interval.map_or(0.0, |ends| ends[1]))
    });
    let axis = Linear { top: if highest > 0.0 { highest } else { 1.0 }, ticks: Vec::new() };
    let mut y = 0.0;
    for group in groups {
        svg.text("group", (0.0, y + 14.0), Anchor::Start, &group.name);
        y += TITLE;
        for bar in &group.bars {
            draw(&mut svg, &axis, bar, y);
            y += BAR + GAP;
        }
        y += AFTER;
    }
    svg.finish()
}

fn draw(svg: &mut Svg, axis: &Linear, bar: &Bar, y: f64) {
    let length = |value: f64| LONGEST * axis.share(value);
    let middle = y + BAR / 2.0;
    svg.rect("track", (0.0, y), (LONGEST, BAR));
    svg.rect(&format!("bar s{}", bar.series), (0.0, y), (length(bar.value).max(1.0), BAR));
    let mut end = length(bar.value);
    if let Some([low, high]) =
        bar.interval.map(|ends| ends.map(length)).filter(|[low, high]| high - low > 2.0)
    {
        svg.line("error", (low, middle), (high, middle));
        for x in [low, high] {
            svg.line("error", (x, middle - 4.0), (x, middle + 4.0));
        }
        end = end.max(high);
    }
    svg.text("value", (end + 7.0, middle + 4.5), Anchor::Start, &number(bar.value));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_bar_fills_the_room_and_the_others_are_in_proportion() {
        let bar = |value, interval| Bar { value, interval, series: 0, name: String::new() };
        let groups = [
            Group { name: "a".to_owned(), bars: vec![bar(100.0, None)] },
            Group {
                name: "b".to_owned(),
                bars: vec![bar(25.0, Some([20.0, 30.0])), bar(0.0, None)],
            },
        ];
        let figure = bars("b", "t", "IO/s", &groups);
        assert!(
            figure.contains("width=\"270.0\"") && figure.contains("width=\"67.5\""),
            "{figure}"
        );
        assert_eq!(figure.matches("class=\"error\"").count(), 3);
        assert!(figure.contains("a: 100 IO/s; b: 25.0 IO/s; b: 0 IO/s"));
        assert!(!bars("b", "t", "IO/s", &[]).contains("NaN"));
    }
}
