//! The reference of all levels as text: limits, fault tolerance, and figures of the layouts.

use crate::{Geometry, Level, LevelRow, MirrorArrangement, ParityArrangement, Shape, picture};
use std::fmt::Write as _;
use units::{DriveCount, StripSize, wrapped};

/// The widest line.
const WIDTH: usize = 100;

/// A layout to show, and how many rows of it.
pub struct Figure {
    /// The layout, with few rows, so that far copies are visible.
    pub geometry: Geometry,
    /// The number of rows.
    pub rows: u64,
}

/// The figures of a level: all its layouts, or enough of them to explain the others.
pub fn figures(level: Level) -> Vec<Figure> {
    use ParityArrangement as P;
    let plain = |drives| Shape::new(level, DriveCount(drives));
    let parity = |drives, parity| Shape { parity: Some(parity), ..plain(drives) };
    let mirrors = |mirrors| Shape { mirrors: Some(mirrors), ..plain(5) };
    let shapes = match level {
        Level::Jbod => vec![(plain(1), 2)],
        Level::Raid0 => vec![(plain(4), 2)],
        Level::Raid00 => vec![(plain(6), 2)],
        Level::Raid1 => vec![(plain(3), 2)],
        Level::Raid1e => vec![
            (mirrors(MirrorArrangement::Near), 4),
            (mirrors(MirrorArrangement::Offset), 4),
            (mirrors(MirrorArrangement::Far), 4),
            (Shape { copies: Some(3), ..plain(4) }, 3),
        ],
        Level::Raid10 => vec![(plain(6), 2), (Shape { spans: Some(2), ..plain(6) }, 2)],
        Level::Raid4 => [P::ParityLast, P::ParityFirst].map(|p| (parity(4, p), 2)).to_vec(),
        Level::Raid5 => {
            [P::LeftSymmetric, P::LeftAsymmetric, P::RightSymmetric, P::RightAsymmetric]
                .map(|p| (parity(4, p), 4))
                .to_vec()
        }
        Level::Raid5ee => [P::LeftSymmetric, P::LeftAsymmetric, P::RightAsymmetric]
            .map(|p| (parity(5, p), 5))
            .to_vec(),
        Level::Raid6 => [P::DdfNContinue, P::DdfNRestart, P::DdfZeroRestart, P::LeftSymmetric]
            .into_iter()
            .chain([P::ParityLast, P::LeftSymmetric6])
            .map(|p| (parity(5, p), 5))
            .collect(),
        Level::Raid50 => vec![(plain(6), 3)],
        Level::Raid60 => vec![(plain(8), 4)],
    };
    let figure = |(shape, rows): (Shape, u64)| {
        let geometry = shape.geometry(StripSize::MIN, StripSize::MIN.bytes() * rows).ok()?;
        Some(Figure { geometry, rows })
    };
    shapes.into_iter().filter_map(figure).collect()
}

/// A figure with its title, without the strip size, which is irrelevant.
pub fn figure_text(figure: &Figure) -> String {
    let title = figure.geometry.to_string().replace(", 4 KiB strip", "");
    format!("{title}\n{}", picture(&figure.geometry, figure.rows))
}

/// The reference: a table of all levels, an example, and figures of each layout, in Markdown.
pub fn reference() -> String {
    let mut text = String::from(HEAD);
    for row in Level::ALL.map(Level::row) {
        table_line(&mut text, row);
    }
    text.push_str(EXAMPLE);
    for level in Level::ALL {
        example_line(&mut text, level);
    }
    text.push_str("\n## Layouts\n\n");
    text.push_str(LEGEND);
    for level in Level::ALL {
        let row = level.row();
        let about = format!("{}.{}", first_upper(row.summary), choices(row));
        let about = wrapped(&about, WIDTH).join("\n");
        let _ = writeln!(text, "\n### {} (`{}`)\n\n{about}\n", row.title, row.name);
        text.push_str("```text\n");
        let figures: Vec<String> = figures(level).iter().map(figure_text).collect();
        text.push_str(&figures.join("\n"));
        text.push_str("```\n");
    }
    text
}

fn first_upper(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

fn choices(row: &LevelRow) -> String {
    let parity: Vec<String> =
        row.parity_arrangements.iter().map(|one| format!("`{one}`")).collect();
    let mirrors: Vec<String> =
        row.mirror_arrangements.iter().map(|one| format!("`{one}`")).collect();
    match [parity, mirrors].concat() {
        names if names.is_empty() => String::new(),
        names => {
            format!(" Values of `--layout`: {} (default), {}.", names[0], names[1..].join(", "))
        }
    }
}

fn range(from: impl ToString, to: impl ToString) -> String {
    let (from, to) = (from.to_string(), to.to_string());
    if from == to { from } else { format!("{from}–{to}") }
}

fn table_line(text: &mut String, row: &LevelRow) {
    let spans = if row.is_spanned() {
        format!(
            "{} of {}",
            range(row.spans.start(), row.spans.end()),
            range(row.drives_per_span.start(), row.drives_per_span.end())
        )
    } else {
        String::new()
    };
    let f = &row.formulas;
    let _ = writeln!(
        text,
        "| {} | `{}` | {} | {spans} | {} | {} | {} | {} |",
        row.title,
        row.name,
        range(row.min_drives, row.max_drives),
        f.usable,
        f.survives_at_least,
        f.survives_at_most,
        f.write_penalty
    );
}

fn example_line(text: &mut String, level: Level) {
    let drives = DriveCount(12.clamp(level.row().min_drives.0, level.row().max_drives.0));
    let Ok(g) = Geometry::new(level, drives, StripSize::MIN, StripSize::MIN.bytes() * 60) else {
        return;
    };
    let usable = g.capacity().0 / g.member_size().0;
    let survives = g.survives();
    let spans = if g.spans() > 1 {
        format!("{} of {}", g.spans(), g.drives_per_span())
    } else {
        String::new()
    };
    let _ = writeln!(
        text,
        "| {} | {drives} | {spans} | {usable} | {} | {} | {} |",
        level.title(),
        survives.at_least,
        survives.at_most,
        g.write_penalty()
    );
}

const HEAD: &str = "\
# Levels

All RAID levels, with their fault tolerance and the places of data and parity on the drives.

- `n`: number of drives; `s`: number of spans; `w` = `n / s`: drives per span; `c`: copies.
- *Usable*: capacity, in drives.
- *May fail*: how many drives can fail at a time, in any combination, without loss of data.
- *At best*: how many drives can fail at a time in the most favourable combination.
- *Write I/Os*: accesses to drives for a small random write of an optimal volume. Parity levels with
  few drives need less than the usual 4 or 6: SoftROC then reads the other data instead of old data
  and old parity.

Strips have 4 KiB to 1 MiB, a power of two. RAID 1E keeps 2 copies by default. RAID 5EE survives
another failure after the rebuild into its distributed spare.

| level | name | drives | spans of drives | usable | may fail | at best | write I/Os |
| --- | --- | --- | --- | --- | --- | --- | --- |
";

const EXAMPLE: &str = "
The same for 12 drives, or the nearest possible number, with the default number of spans:

| level | drives | spans | usable | may fail | at best | write I/Os |
| --- | --- | --- | --- | --- | --- | --- |
";

const LEGEND: &str = "\
The figures show the first rows of the drives. A number is a data strip, in the order of the bytes
of the volume. A prime marks a further copy. P and Q are parity, S is a spare strip. A bar separates
spans.
";
