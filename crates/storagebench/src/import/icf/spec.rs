//! Access specifications.

use super::super::{Import, Place, Refusal, Taken, refused};
use super::{Config, workers};
use crate::load::area::short_size;
use crate::load::profile::{Align, Component, Load, Pace, RequestKind};
use std::time::Duration;
use units::ByteCount;

/// The longest pause.
const LONGEST_DELAY_MS: u64 = 86_400_000;

/// A partially read specification.
pub(super) struct Spec {
    pub(super) place: Place,
    pub(super) name: String,
    kinds: Vec<RequestKind>,
    /// Delay in milliseconds and burst of each kind.
    pauses: Vec<(u64, u64)>,
    sum: u64,
    refusal: Option<Refusal>,
}

/// The numbers of a kind of request.
fn eight_numbers(place: &Place, text: &str) -> Taken<[u64; 8]> {
    let expected = "expected eight whole numbers: size, % of size, % reads, % random, delay, \
                    burst, align, reply";
    let numbers: std::result::Result<Vec<u64>, _> =
        text.split(',').map(|number| number.trim().parse::<u64>()).collect();
    let Ok(numbers) = numbers else {
        return refused(place, format_args!("'{text}' is not a list of whole numbers; {expected}"));
    };
    let count = numbers.len();
    match <[u64; 8]>::try_from(numbers) {
        Ok(numbers) => Ok(numbers),
        Err(_) => refused(place, format_args!("'{text}' has {count} numbers; {expected}")),
    }
}

impl Spec {
    pub(super) fn new(place: Place, name: &str) -> Spec {
        let name = name.to_owned();
        Spec { place, name, kinds: Vec::new(), pauses: Vec::new(), sum: 0, refusal: None }
    }

    /// Reads a kind of request. An invalid line refuses the specification.
    pub(super) fn line(&mut self, import: &mut Import, place: &Place, text: &str) {
        if let Err(refusal) = self.kind(import, place, text) {
            self.refusal.get_or_insert(refusal);
        }
    }

    fn kind(&mut self, import: &mut Import, place: &Place, text: &str) -> Taken<()> {
        let [size, share, reads, random, delay, burst, align, reply] = eight_numbers(place, text)?;
        for (percent, what) in [(share, "of size"), (reads, "reads"), (random, "random")] {
            if percent > 100 {
                let sentence = "is more than 100 %; give a percentage from 0 to 100";
                return refused(place, format_args!("{percent} % {what} {sentence}"));
            }
        }
        if size == 0 {
            return refused(
                place,
                "its size is 0 bytes, which makes it idle; omit it, or give a size such as 4096",
            );
        }
        if !size.is_multiple_of(512) {
            return refused(
                place,
                format_args!(
                    "a size of {size} bytes is not whole sectors; give a multiple of 512 bytes"
                ),
            );
        }
        if delay > LONGEST_DELAY_MS {
            return refused(
                place,
                format_args!("a delay of {delay} ms is more than a day; give a shorter one"),
            );
        }
        if reply != 0 {
            import.note(
                place,
                format_args!("the reply of {reply} bytes is for networks and is left out"),
            );
        }
        self.sum += share;
        if share > 0 {
            self.kinds.push(RequestKind {
                share: share as f64,
                block: ByteCount(size),
                read_percent: reads as f64,
                random_percent: random as f64,
                align: match align {
                    0 => Align::Sector,
                    align if align == size => Align::Block,
                    align => Align::Bytes(ByteCount(align)),
                },
            });
            self.pauses.push((delay, burst.max(1)));
        }
        Ok(())
    }

    /// The load of the workers, with the file's times.
    pub(super) fn load(&self, import: &mut Import, config: &Config) -> Taken<Load> {
        if let Some(refusal) = &self.refusal {
            return Err(refusal.clone());
        }
        if self.sum != 100 {
            return refused(
                &self.place,
                format_args!(
                    "the shares of its kinds of requests add up to {} %; they must add up to 100 %",
                    self.sum
                ),
            );
        }
        let run = workers::run_of(&self.name, &self.place, import, config)?;
        let component = Component::of(self.kinds.clone());
        let mut load = match &run.parts[..] {
            [] => Load::of(vec![component]),
            [(only, _)] => Load { area: *only, ..Load::of(vec![component]) },
            several => Load::of(
                several
                    .iter()
                    .map(|(area, share)| Component {
                        area: *area,
                        share: *share,
                        ..component.clone()
                    })
                    .collect(),
            ),
        };
        load.pace = self.pace(import);
        load.outstanding = run.outstanding;
        load.runtime = config.setup.runtime;
        load.ramp = config.setup.ramp.or(config.setup.runtime.map(|_| Duration::ZERO));
        Ok(load)
    }

    fn pace(&self, import: &mut Import) -> Pace {
        let Some((first, rest)) = self.pauses.split_first() else { return Pace::BACK_TO_BACK };
        if rest.iter().any(|pause| pause != first) {
            import.note(
                &self.place,
                format_args!(
                    "the kinds of requests of '{}' have different delays or bursts, which are \
                     left out; give all of them the same",
                    self.name
                ),
            );
            return Pace::BACK_TO_BACK;
        }
        let burst = u32::try_from(first.1).unwrap_or(u32::MAX);
        match first.0 {
            0 => Pace::BACK_TO_BACK,
            delay => Pace::Closed { think: Duration::from_millis(delay), burst },
        }
    }

    pub(super) fn prose(&self) -> String {
        let sizes: Vec<String> = self.kinds.iter().map(|kind| short_size(kind.block)).collect();
        format!("the access specification '{}' ({})", self.name, sizes.join(", "))
    }
}
