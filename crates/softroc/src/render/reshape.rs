//! Reshapes as text.

use super::{facts, with_notes};
use crate::progress::seconds;
use controller::{LayoutInfo, ReshapeInfo};
use std::time::Duration;
use units::{ByteCount, counted};

/// A planned or running reshape.
pub fn one(reshape: &ReshapeInfo, notes: &[String]) -> String {
    let mut list = vec![
        ("volume", reshape.volume.clone()),
        ("from", layout(&reshape.from)),
        ("to", layout(&reshape.to)),
        ("capacity", capacity(reshape)),
        (
            "moved",
            if reshape.down {
                "from its last byte to its first"
            } else {
                "from its first byte to its last"
            }
            .to_owned(),
        ),
        ("may lose meanwhile", counted(reshape.may_lose, "drive")),
        (
            "hosts wait for",
            format!(
                "up to {} at a time, and less during host I/O",
                ByteCount(reshape.at_a_time_bytes)
            ),
        ),
        (
            "saved first",
            format!(
                "up to {} at a time, where new data would overwrite data that has not moved yet",
                ByteCount(reshape.saved_at_a_time_bytes)
            ),
        ),
    ];
    if !reshape.removes.is_empty() {
        list.push(("unused afterwards", reshape.removes.join(", ")));
    }
    list.extend(reshape.along.iter().map(|other| ("moves along", along(other))));
    let all = std::iter::once(reshape).chain(&reshape.along);
    let time: Option<u64> = all.map(|one| one.estimated_s).sum();
    let time = time.map(|estimate| seconds(Duration::from_secs(estimate)));
    let of = if reshape.along.is_empty() { "" } else { " for all of them" };
    list.extend(time.map(|time| {
        ("time", format!("about {time}{of} without hosts, at the rate of its slowest drive now"))
    }));
    with_notes(facts(&list), notes)
}

/// The progress of a volume's reshape, on one line.
pub fn progress(reshape: &ReshapeInfo) -> String {
    if reshape.waits {
        return format!(
            "queued behind other volumes of its array; then reshaped to {}",
            layout(&reshape.to)
        );
    }
    let percent = reshape.moved_bytes.saturating_mul(100) / reshape.total_bytes.max(1);
    format!("{percent} % reshaped to {}", layout(&reshape.to))
}

/// Another volume of the array with its own reshape, on one line.
fn along(reshape: &ReshapeInfo) -> String {
    let time = reshape.estimated_s.map(|estimate| seconds(Duration::from_secs(estimate)));
    let time = time.map(|time| format!(", about {time}")).unwrap_or_default();
    let (name, may_lose) = (&reshape.volume, counted(reshape.may_lose, "drive"));
    let size = ByteCount(reshape.to.capacity_bytes);
    format!(
        "{name}, to {}; it keeps its size of {size}, and survives the failure of {may_lose} \
         meanwhile{time}",
        layout(&reshape.to)
    )
}

fn layout(of: &LayoutInfo) -> String {
    let strip = ByteCount(of.strip_bytes);
    format!("{} on {} with strips of {strip}", of.level, counted(of.drives, "drive"))
}

fn capacity(reshape: &ReshapeInfo) -> String {
    let [from, to] = [&reshape.from, &reshape.to].map(|of| ByteCount(of.capacity_bytes));
    format!("{from}, then {to}")
}
