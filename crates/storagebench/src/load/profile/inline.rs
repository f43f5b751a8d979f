//! Inline profiles: `random,67%read,8K`, or a name, with options after either.

use super::{
    Access, Align, Arrivals, Component, Extent, Load, Pace, Profile, RequestKind, Skew, Streams,
    Zone, parse_percent, parse_time, wrong,
};
use crate::error::Result;
use crate::load::area::short_size;
use units::ByteCount;

/// An option of the inline form.
pub(crate) struct InlineOption {
    pub(crate) key: &'static str,
    /// An example value.
    pub(crate) value: &'static str,
    /// A description in a line.
    pub(crate) prose: &'static str,
    set: fn(&mut Load, &str) -> Option<()>,
}

/// The options, in the order of their documentation.
pub(crate) fn options() -> &'static [InlineOption] {
    &OPTIONS
}

const OPTIONS: [InlineOption; 13] = [
    InlineOption {
        key: "align",
        value: "4K, sector or block",
        prose: "alignment of offsets",
        set: |load, value| {
            let align = Align::parse(value)?;
            each_kind(load, |kind| kind.align = align)
        },
    },
    InlineOption {
        key: "zipf",
        value: "1.1",
        prose: "random requests by Zipf's law with this exponent",
        set: |load, value| {
            let skew = Skew::Zipf { theta: value.parse().ok()? };
            each_component(load, |component| component.skew = skew.clone())
        },
    },
    InlineOption {
        key: "pareto",
        value: "0.2",
        prose: "power law: this share of the blocks gets all but this share of the random requests",
        set: |load, value| {
            let skew = Skew::Pareto { share: value.parse().ok()? };
            each_component(load, |component| component.skew = skew.clone())
        },
    },
    InlineOption {
        key: "normal",
        value: "10%",
        prose: "bell curve of random requests: twelve uniform draws, widened by this percentage",
        set: |load, value| {
            let skew = Skew::Normal { deviation_percent: parse_percent(value)? };
            each_component(load, |component| component.skew = skew.clone())
        },
    },
    InlineOption {
        key: "hot",
        value: "90%:4G",
        prose: "share of the random requests to a hot spot (a size or a percentage of the area)",
        set: |load, value| {
            let (share, size) = value.split_once(':')?;
            let access_percent = parse_percent(share)?;
            let skew =
                Skew::HotSpot { access_percent, size: Extent::parse(size)?, moves_every: None };
            each_component(load, |component| component.skew = skew.clone())
        },
    },
    InlineOption {
        key: "moves",
        value: "10s",
        prose: "interval at which the hot spot moves by its size",
        set: |load, value| {
            let time = parse_time(value)?;
            load.components.iter_mut().try_for_each(|component| match &mut component.skew {
                Skew::HotSpot { moves_every, .. } => {
                    *moves_every = Some(time);
                    Some(())
                }
                _ => None,
            })
        },
    },
    InlineOption {
        key: "zones",
        value: "50/5:30/15:20/80",
        prose: "zones: shares of the random requests and of the area",
        set: |load, value| {
            let zones = value.split(':').map(parse_zone).collect::<Option<Vec<Zone>>>()?;
            each_component(load, |component| component.skew = Skew::Zones(zones.clone()))
        },
    },
    InlineOption {
        key: "streams",
        value: "8 or 8x2G",
        prose: "number of sequential streams, and their distance",
        set: |load, value| {
            let (count, apart) = match value.split_once('x') {
                Some((count, apart)) => (count, Some(apart.parse().ok()?)),
                None => (value, None),
            };
            let streams = Streams { count: count.parse().ok().filter(|count| *count > 0)?, apart };
            each_component(load, |component| component.streams = streams)
        },
    },
    InlineOption {
        key: "rate",
        value: "5000/s",
        prose: "open loop at this rate; latencies count from the due time",
        set: |load, value| {
            let rate = value.strip_suffix("/s").unwrap_or(value).parse().ok()?;
            let arrivals = match load.pace {
                Pace::Open { arrivals, .. } => arrivals,
                Pace::Closed { .. } => Arrivals::Poisson,
            };
            load.pace = Pace::Open { rate, arrivals };
            Some(())
        },
    },
    InlineOption {
        key: "arrivals",
        value: "poisson or fixed",
        prose: "arrivals of an open loop: random or at equal intervals",
        set: |load, value| {
            let (Pace::Open { rate, .. }, Some(arrivals)) = (load.pace, parse_arrivals(value))
            else {
                return None;
            };
            load.pace = Pace::Open { rate, arrivals };
            Some(())
        },
    },
    InlineOption {
        key: "think",
        value: "5ms or 5ms:4",
        prose: "pause of each outstanding I/O after every request, or every Nth",
        set: |load, value| {
            let (time, burst) = value.split_once(':').unwrap_or((value, "1"));
            load.pace = Pace::Closed { think: parse_time(time)?, burst: burst.parse().ok()? };
            Some(())
        },
    },
    InlineOption {
        key: "compressible",
        value: "50%",
        prose: "compressible share of written data",
        set: |load, value| {
            load.compressible_percent = parse_percent(value)?;
            Some(())
        },
    },
    InlineOption {
        key: "area",
        value: "0..10%",
        prose: "part of the measured area",
        set: |load, value| {
            load.area = value.parse().ok()?;
            Some(())
        },
    },
];

fn each_component(load: &mut Load, set: impl Fn(&mut Component)) -> Option<()> {
    load.components.iter_mut().for_each(set);
    Some(())
}

fn each_kind(load: &mut Load, set: impl Fn(&mut RequestKind)) -> Option<()> {
    load.components.iter_mut().flat_map(|component| &mut component.kinds).for_each(set);
    Some(())
}

fn parse_arrivals(text: &str) -> Option<Arrivals> {
    match text {
        "poisson" => Some(Arrivals::Poisson),
        "fixed" => Some(Arrivals::Fixed),
        _ => None,
    }
}

/// `50/5`: half of the requests, a twentieth of the area.
fn parse_zone(text: &str) -> Option<Zone> {
    let (access, span) = text.split_once('/')?;
    Some(Zone { access_percent: parse_percent(access)?, span_percent: parse_percent(span)? })
}

/// Applies options such as `rate=5000/s` to `load`. `whole` is the user's text.
fn parse_options(load: &mut Load, whole: &str, given: &[&str]) -> Result<()> {
    let mut before: Vec<&'static str> = Vec::new();
    for text in given {
        let known = text.split_once('=').and_then(|(key, value)| {
            OPTIONS
                .iter()
                .find(|option| option.key == key.trim())
                .map(|option| (option, value.trim()))
        });
        let Some((option, value)) = known else {
            let keys: Vec<&str> = OPTIONS.iter().map(|option| option.key).collect();
            return Err(wrong(format!(
                "in the load profile '{whole}', '{text}' is not an option; expected KEY=VALUE with \
                    one of {}",
                keys.join(", ")
            )));
        };
        if let Some(other) = before.iter().find(|other| exclude(other, option.key)) {
            return Err(wrong(match *other == option.key {
                true => {
                    format!("in the load profile '{whole}', {other}= is given twice; give it once")
                }
                false => format!(
                    "in the load profile '{whole}', {other}= and {}= exclude one another; give one \
                        of them",
                    option.key
                ),
            }));
        }
        before.push(option.key);
        if let Some(why) = in_vain(option.key, load) {
            return Err(wrong(format!(
                "in the load profile '{whole}', '{text}' has no effect, since {why}; omit it, or \
                 choose another profile"
            )));
        }
        (option.set)(load, value).ok_or_else(|| {
            let after = match option.key {
                "moves" => " after hot=",
                "arrivals" => " after rate=",
                _ => "",
            };
            wrong(format!(
                "in the load profile '{whole}', '{text}' is not understood; expected {}= with \
                    {}{after}",
                option.key, option.value
            ))
        })?;
    }
    Ok(())
}

/// Whether both options exclude each other.
fn exclude(one: &str, other: &str) -> bool {
    const SAME_THING: [&[&str]; 2] =
        [&["zipf", "pareto", "normal", "hot", "zones"], &["rate", "think"]];
    one == other || SAME_THING.iter().any(|keys| keys.contains(&one) && keys.contains(&other))
}

/// The reason why an option has no effect on this load.
fn in_vain(key: &str, load: &Load) -> Option<&'static str> {
    let all = |test: fn(&RequestKind) -> bool| {
        load.components.iter().flat_map(|one| &one.kinds).all(test)
    };
    match key {
        "zipf" | "pareto" | "normal" | "hot" | "zones" => {
            all(|kind| kind.random_percent <= 0.0).then_some("no request is random")
        }
        "streams" => all(|kind| kind.random_percent >= 100.0).then_some("no request is sequential"),
        "compressible" => all(|kind| kind.read_percent >= 100.0).then_some("it writes nothing"),
        _ => None,
    }
}

/// Applies one option, as in a catalog file. Returns the expected form of an invalid value.
pub(crate) fn set_option(
    load: &mut Load,
    option: &InlineOption,
    value: &str,
) -> std::result::Result<(), String> {
    (option.set)(load, value).ok_or_else(|| option.value.to_owned())
}

/// The percentage of random requests, if `text` is one.
pub(crate) fn parse_access(text: &str) -> Option<f64> {
    match text {
        "random" | "rand" => Some(100.0),
        "sequential" | "seq" => Some(0.0),
        _ => parse_percent(text.strip_suffix("random")?.trim().strip_suffix('%')?),
    }
}

/// `67%read`, `33%write`, `read`, `write`: the percentage of reads.
fn parse_share(whole: &str, text: &str) -> Result<f64> {
    let wrong = || {
        wrong(format!(
            "in the load profile '{whole}', '{text}' is not a share of reads; expected a \
                percentage from 0 to 100, such as 67%read"
        ))
    };
    let (number, reads) = match (text.strip_suffix("read"), text.strip_suffix("write")) {
        (Some(number), _) => (number.trim(), true),
        (_, Some(number)) => (number.trim(), false),
        _ => return Err(wrong()),
    };
    let percent = match number {
        "" => 100.0,
        number if number.ends_with('%') => parse_percent(number).ok_or_else(wrong)?,
        _ => return Err(wrong()),
    };
    Ok(if reads { percent } else { 100.0 - percent })
}

/// `8K`, or `4K/60:64K/40`: lengths and the share of each.
fn parse_blocks(whole: &str, text: &str) -> Result<Vec<(ByteCount, f64)>> {
    let parse = |part: &str| {
        let (block, share) = part.split_once('/').unwrap_or((part, "100"));
        let share = parse_percent(share).ok_or_else(|| {
            wrong(format!(
                "in the load profile '{whole}', '{share}' is not a share of the blocks; expected \
                 percentages that add up to 100, such as 4K/60:64K/40"
            ))
        })?;
        let block = block.trim().parse::<ByteCount>().map_err(|error| {
            wrong(format!("in the load profile '{whole}', the block size {error}"))
        })?;
        Ok((block, share))
    };
    let blocks = text.split(':').map(parse).collect::<Result<Vec<_>>>()?;
    let sum: f64 = blocks.iter().map(|(_, share)| share).sum();
    if (sum - 100.0).abs() > 1e-6 {
        return Err(wrong(format!(
            "in the load profile '{whole}', the shares of the blocks add up to {sum}% instead of \
             100%; give each its share, such as 4K/60:64K/40"
        )));
    }
    Ok(blocks)
}

/// `ACCESS,SHARE,BLOCK` with options; the parts are in lower case, `parts[0]` is an access.
pub(crate) fn parse(whole: &str, random_percent: f64, parts: &[&str]) -> Result<Profile> {
    let [_, share, block, given @ ..] = parts else {
        return Err(wrong(format!(
            "the load profile '{whole}' has {} parts; expected at least three, ACCESS,SHARE,BLOCK, \
                such as random,67%read,8K",
            parts.len()
        )));
    };
    let read_percent = parse_share(whole, share)?;
    let blocks = parse_blocks(whole, block)?;
    let kind = |(block, share): &(ByteCount, f64)| RequestKind {
        share: *share,
        block: *block,
        read_percent,
        random_percent,
        align: Align::Block,
    };
    let mut load = Load::of(vec![Component::of(blocks.iter().map(kind).collect())]);
    parse_options(&mut load, whole, given)?;
    let blocks: Vec<String> = match &blocks[..] {
        [(block, _)] => vec![short_size(*block)],
        several => {
            several.iter().map(|(block, share)| format!("{}/{share}", short_size(*block))).collect()
        }
    };
    let access = match random_percent {
        100.0 => Access::Random.to_string(),
        0.0 => Access::Sequential.to_string(),
        random => format!("{random}%random"),
    };
    let mut name = format!("{access},{read_percent}%read,{}", blocks.join(":"));
    given.iter().for_each(|option| {
        name.push(',');
        name.push_str(option);
    });
    Profile::new(name, load)
}

impl Profile {
    /// The profile with options, which become part of its name.
    pub(crate) fn with_options(&self, whole: &str, given: &[&str]) -> Result<Profile> {
        let mut load = self.load.clone();
        parse_options(&mut load, whole, given)?;
        let name = format!("{},{}", self.name, given.join(","));
        Ok(Profile::new(name, load)?.described(self.prose.clone(), self.source.clone()))
    }
}
