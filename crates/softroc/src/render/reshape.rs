//! Volumes on their way to another layout, as text.

use super::{facts, with_notes};
use crate::progress::seconds;
use controller::{LayoutInfo, ReshapeInfo};
use std::time::Duration;
use units::{ByteCount, counted};

/// A way that has begun, or would.
pub fn one(reshape: &ReshapeInfo, notes: &[String]) -> String {
    let mut list = vec![
        ("volume", reshape.volume.clone()),
        ("from", layout(&reshape.from)),
        ("to", layout(&reshape.to)),
        ("capacity", capacity(reshape)),
        (
            "moved",
            if reshape.down { "from its last byte to its first" } else { "from its first byte to its last" }
                .to_owned(),
        ),
        ("may lose on the way", counted(reshape.may_lose, "drive")),
        (
            "hosts wait for",
            format!(
                "up to {} at a time, and less while they ask for anything",
                ByteCount(reshape.at_a_time_bytes)
            ),
        ),
        (
            "saved first",
            format!(
                "up to {} at a time, where old data would be overwritten",
                ByteCount(reshape.saved_at_a_time_bytes)
            ),
        ),
    ];
    if !reshape.removes.is_empty() {
        list.push(("unused in the end", reshape.removes.join(", ")));
    }
    let time = reshape.estimated_s.map(|estimate| seconds(Duration::from_secs(estimate)));
    list.extend(
        time.map(|time| {
            ("time", format!("about {time} without hosts, at the rate of its slowest drive now"))
        }),
    );
    with_notes(facts(&list), notes)
}

/// How far a volume is, in a line.
pub fn progress(reshape: &ReshapeInfo) -> String {
    let percent = reshape.moved_bytes.saturating_mul(100) / reshape.total_bytes.max(1);
    format!("{percent} % on the way to {}", layout(&reshape.to))
}

fn layout(of: &LayoutInfo) -> String {
    let strip = ByteCount(of.strip_bytes);
    format!("{} on {} with strips of {strip}", of.level, counted(of.drives, "drive"))
}

fn capacity(reshape: &ReshapeInfo) -> String {
    let [from, to] = [&reshape.from, &reshape.to].map(|of| ByteCount(of.capacity_bytes));
    format!("{from}, then {to}")
}
