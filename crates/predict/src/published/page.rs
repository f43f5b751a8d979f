//! An HTML page of charts in the layout of the papers. For the drives and level of each document:
//! bars per load and controller, published and predicted. Then all statements.

use super::{Figure, Report, Reproduced, Summary};
use std::collections::BTreeMap;
use std::fmt::Write;
use storagebench::number_text as number;

const STYLE: &str = include_str!("page.css");

/// Escapes text for an element.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A chart: drives and a level under loads.
type Loads<'a> = BTreeMap<&'a str, Vec<&'a Reproduced>>;

impl Report {
    /// The page; `figures` gives the documents of figures.
    pub fn page(&self, figures: &[Figure]) -> String {
        let documents: BTreeMap<&str, &str> =
            figures.iter().map(|figure| (figure.id.as_str(), figure.doc.as_str())).collect();
        let mut page = String::new();
        head(&mut page, self);
        let mut by_document: BTreeMap<&str, BTreeMap<(&str, &str), Loads<'_>>> = BTreeMap::new();
        for figure in &self.reproduced {
            if let (Some(place), Some(_)) = (&figure.place, figure.value) {
                let document = documents.get(figure.id.as_str()).copied().unwrap_or("");
                let charts = by_document.entry(document).or_default();
                let chart =
                    charts.entry((place.drives.as_str(), place.level.as_str())).or_default();
                chart.entry(&place.load).or_default().push(figure);
            }
        }
        for (document, charts) in by_document {
            let _ = write!(page, "<h2>{}</h2>\n<div class=\"charts\">\n", escape(document));
            for ((drives, level), loads) in charts {
                chart(&mut page, &format!("{drives}, {level}"), &loads);
            }
            page.push_str("</div>\n");
        }
        statements(&mut page, self);
        page.push_str("</main>\n</html>\n");
        page
    }
}

fn head(page: &mut String, report: &Report) {
    let _ = write!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Published and predicted</title>\n<style>\n{STYLE}</style>\n<main>\n\
         <h1>Published and predicted</h1>\n\
         <p class=\"lead\">{}</p>\n\
         <ul class=\"legend\"><li><span class=\"swatch published\"></span>published</li>\
         <li><span class=\"swatch predicted\"></span>predicted (not used in a fit); the line \
         marks the 90 % interval</li><li><span class=\"swatch fitted\"></span>predicted (used in \
         a fit)</li></ul>\n",
        lead(&report.summary()),
    );
}

/// The accuracy of all figures, without empty groups.
fn lead(summary: &Summary) -> String {
    let (free, fitted, said) = (summary.held_out, summary.fitted, summary.statements);
    let mut sentences = Vec::new();
    if free.values > 0 {
        sentences.push(format!(
            "Of {} values that were not used in a fit, half are at most {:.1} % off, nine of ten \
             {:.1} %.",
            free.values, free.median, free.ninth
        ));
    }
    if fitted.values > 0 {
        sentences.push(format!(
            "{} values that were used in a fit are at most {:.1} % off.",
            fitted.values, fitted.worst
        ));
    }
    if said.all > 0 {
        sentences.push(format!("{} of {} statements are right.", said.kept, said.all));
    }
    sentences.join(" ")
}

fn chart(page: &mut String, title: &str, loads: &Loads<'_>) {
    let _ = writeln!(page, "<section class=\"chart\"><h3>{}</h3>", escape(title));
    for (load, figures) in loads {
        let unit =
            figures.first().and_then(|figure| figure.place.as_ref()).map_or("", |place| place.unit);
        let _ = writeln!(page, "<h4>{}, {unit}</h4>", escape(load));
        // The bars of a load share one scale, with space for the expected errors.
        let most = |figure: &&Reproduced| {
            let [_, high] = between(figure.predicted, figure.expected_percent.unwrap_or(0.0));
            figure.value.unwrap_or(0.0).max(high.unwrap_or(figure.predicted))
        };
        let top = figures.iter().map(most).fold(f64::MIN_POSITIVE, f64::max);
        for figure in figures {
            pair(page, figure, top);
        }
    }
    page.push_str("</section>\n");
}

/// The range of a figure whose prediction may differ by that percentage of the *figure*. An error
/// of 100 % has no upper bound.
fn between(predicted: f64, percent: f64) -> [Option<f64>; 2] {
    let part = percent / 100.0;
    [Some(predicted / (1.0 + part)), (part < 1.0).then(|| predicted / (1.0 - part))]
}

/// The published and the predicted bar of a figure.
fn pair(page: &mut String, figure: &Reproduced, top: f64) {
    let controller = figure.place.as_ref().map_or("", |place| place.controller.as_str());
    let error = match (figure.error_percent, figure.right) {
        (Some(error), true) => format!(" {error:+.1} %"),
        (Some(error), false) => format!(" <span class=\"wrong\">{error:+.1} %</span>"),
        (None, true) => String::new(),
        (None, false) => " <span class=\"wrong\">out of bounds</span>".to_owned(),
    };
    let _ = writeln!(
        page,
        "<p class=\"who\">{} ({}){error}</p>",
        escape(controller),
        escape(&figure.id)
    );
    let class = if figure.calibrated { "fitted" } else { "predicted" };
    let share = |value: f64| (value / top * 100.0).clamp(0.0, 100.0);
    let line = figure.expected_percent.map_or_else(String::new, |percent| {
        let [low, high] = between(figure.predicted, percent).map(|end| share(end.unwrap_or(top)));
        format!("<b style=\"left:{low:.1}%;width:{:.1}%\"></b>", high - low)
    });
    let published = figure.value.unwrap_or(0.0);
    for (class, name, value, shown, line) in [
        ("published", "published", published, figure.published.clone(), String::new()),
        (class, "predicted", figure.predicted, number(figure.predicted), line),
    ] {
        let _ = writeln!(
            page,
            "<div class=\"row {class}\"><div class=\"bar\" role=\"img\" \
             aria-label=\"{name} {0}\"><i style=\"width:{1:.1}%\"></i>\
             {line}</div><span>{0}</span></div>",
            escape(&shown),
            share(value),
        );
    }
}

fn statements(page: &mut String, report: &Report) {
    let mut bounds = report.reproduced.iter().filter(|figure| figure.value.is_none()).peekable();
    if bounds.peek().is_none() {
        return;
    }
    page.push_str(
        "<h2>Statements</h2>\n<div class=\"scroll\"><table>\n\
         <tr><th>figure</th><th>published</th><th>predicted</th>\
         <th></th><th>what</th><th>statement, and why it is not right</th></tr>\n",
    );
    for figure in bounds {
        let words: Vec<&str> = [&figure.statement, &figure.reason]
            .into_iter()
            .map(String::as_str)
            .filter(|words| !words.is_empty())
            .collect();
        let right = if figure.right { "" } else { "<span class=\"wrong\">wrong</span>" };
        let _ = writeln!(
            page,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{right}</td><td class=\"words\">{}</td><td \
                class=\"words\">{}</td></tr>",
            escape(&figure.id),
            escape(&figure.published),
            figure.predicted,
            escape(&figure.what),
            escape(&words.join(" - ")),
        );
    }
    page.push_str("</table></div>\n");
}

#[cfg(test)]
mod tests {
    use super::super::{Case, Metric, compared, figures};
    use super::*;

    #[test]
    fn a_page_has_what_is_published_beside_what_is_predicted() {
        let all = figures().unwrap();
        let figure = all.iter().find(|figure| figure.id == "f16-152").unwrap();
        let case =
            Case::parse("CP400i / 8xSAS-12G-HDD / raid5 / restore / fujitsu2016 / off @ max")
                .unwrap();
        let place = case.place(models::Catalog::builtin(), Metric::Throughput).unwrap();
        let found = compared(figure, "a < b".to_owned(), 1659.0, 2000.0);
        let free = Reproduced {
            place: Some(place),
            value: Some(1659.0),
            expected_percent: Some(10.0),
            ..found
        };
        let bound = Reproduced {
            right: false,
            place: None,
            value: None,
            error_percent: None,
            ..free.clone()
        };
        let page = Report { reproduced: vec![free, bound], missing: Vec::new(), not_compared: 0 }
            .page(&all);
        assert!(
            page.contains("<h2>fujitsu2016</h2>") && page.contains("8xSAS-12G-HDD, raid5"),
            "{page}"
        );
        assert!(
            page.contains("style=\"width:74.7%\"") && page.contains("style=\"width:90.0%\""),
            "{page}"
        );
        assert!(page.contains("left:81.8%;width:18.2%") && page.contains("+20.6 %"), "{page}");
        assert!(
            page.contains("at most 20.6 % off, nine of ten 20.6 %")
                && page.contains("a &lt; b")
                && page.contains(">wrong<"),
            "{page}"
        );
    }
}
