//! A small SVG writer: shapes with a class each, which the page's style sheet colours.

use std::fmt::Write;

/// Escapes text for HTML and SVG.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            character => escaped.push(character),
        }
    }
    escaped
}

/// The anchor of a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Anchor {
    fn name(self) -> &'static str {
        match self {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        }
    }
}

/// An unfinished drawing. Lengths are in its own units; the page scales it.
pub(super) struct Svg {
    text: String,
}

impl Svg {
    /// A drawing of that size. `id` is unique on the page; `title` and `description` are for screen
    /// readers.
    pub(super) fn new(id: &str, width: f64, height: f64, title: &str, description: &str) -> Svg {
        let (title, description) = (escape(title), escape(description));
        Svg {
            text: format!(
                "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" \
                 aria-labelledby=\"{id}-t {id}-d\">\
                 <title id=\"{id}-t\">{title}</title><desc id=\"{id}-d\">{description}</desc>"
            ),
        }
    }

    fn add(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.text.write_fmt(element);
    }

    pub(super) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        self.add(format_args!(
            "<line class=\"{class}\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>",
            from.0, from.1, to.0, to.1
        ));
    }

    pub(super) fn polyline(&mut self, class: &str, points: &[(f64, f64)]) {
        let places: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        self.add(format_args!("<polyline class=\"{class}\" points=\"{}\"/>", places.join(" ")));
    }

    pub(super) fn polygon(&mut self, class: &str, points: &[(f64, f64)]) {
        let places: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        self.add(format_args!("<polygon class=\"{class}\" points=\"{}\"/>", places.join(" ")));
    }

    pub(super) fn rect(&mut self, class: &str, corner: (f64, f64), size: (f64, f64)) {
        self.add(format_args!(
            "<rect class=\"{class}\" x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
            corner.0, corner.1, size.0, size.1
        ));
    }

    /// A point with the tooltip `tip`. Every series has its own shape, so that colour is never the
    /// only difference.
    pub(super) fn mark(&mut self, class: &str, series: usize, at: (f64, f64), tip: &str) {
        let (x, y) = at;
        let shape = match series % 4 {
            0 => format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"/>"),
            1 => format!(
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"5.6\" height=\"5.6\"/>",
                x - 2.8,
                y - 2.8
            ),
            2 => format!("<path d=\"M{x:.1} {:.1}l3.6 6.4h-7.2z\"/>", y - 3.8),
            _ => format!("<path d=\"M{x:.1} {:.1}l4 4l-4 4l-4-4z\"/>", y - 4.0),
        };
        self.add(format_args!("<g class=\"{class}\"><title>{}</title>{shape}</g>", escape(tip)));
    }

    pub(super) fn text(&mut self, class: &str, at: (f64, f64), anchor: Anchor, text: &str) {
        self.add(format_args!(
            "<text class=\"{class}\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{}\">{}</text>",
            at.0,
            at.1,
            anchor.name(),
            escape(text)
        ));
    }

    pub(super) fn finish(mut self) -> String {
        self.text.push_str("</svg>");
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_becomes_markup() {
        let mut svg = Svg::new("a", 10.0, 10.0, "</title><script>", "\"&'");
        svg.text("tick", (1.0, 2.0), Anchor::End, "<b>");
        svg.mark("dot", 0, (1.0, 2.0), "a > b");
        let text = svg.finish();
        assert!(!text.contains("<script>") && !text.contains("<b>"));
        assert!(text.contains("&quot;&amp;&#39;") && text.contains("a &gt; b"));
        assert!(text.starts_with("<svg ") && text.ends_with("</svg>"));
    }
}
