//! Reads a catalog file. Every error has the file, the line and the key.

use super::{Entry, Group};
use crate::error::{Error, ErrorKind, Result};
use crate::load::ladder::Ladder;
use crate::load::profile::{
    Align, Component, Load, Profile, RequestKind, options, parse_access_text, set_option,
};
use std::cell::RefCell;
use std::ops::Range;
use std::time::Duration;
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use units::ByteCount;

/// Keys of a component in addition to the options of the inline form.
const REQUEST_KEYS: [&str; 6] = ["access", "random", "read", "block", "blocks", "requests"];
/// Keys of a workload in addition to those of its only component.
const WORKLOAD_KEYS: [&str; 9] =
    ["name", "aliases", "prose", "source", "component", "outstanding", "runtime", "ramp", "sweep"];

/// The file.
struct File<'a> {
    name: &'a str,
    text: &'a str,
}

impl File<'_> {
    fn error(&self, at: Range<usize>, sentence: impl std::fmt::Display) -> Error {
        let before = self.text.get(..at.start.min(self.text.len())).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        Error::new(ErrorKind::BadProfile, format!("{}:{line}: {sentence}", self.name))
    }
}

/// A table of the file, and the keys that were read: the other keys are mistakes.
struct Section<'a> {
    file: &'a File<'a>,
    table: &'a DeTable<'a>,
    span: Range<usize>,
    /// A key with values from a sweep.
    swept: Option<(&'a str, &'a Spanned<DeValue<'a>>)>,
    asked: RefCell<Vec<&'static str>>,
}

type Value<'a> = &'a Spanned<DeValue<'a>>;

impl<'a> Section<'a> {
    fn new(file: &'a File<'a>, table: &'a DeTable<'a>, span: Range<usize>) -> Section<'a> {
        Section { file, table, span, swept: None, asked: RefCell::default() }
    }

    fn get(&self, key: &'static str) -> Option<Value<'a>> {
        self.asked.borrow_mut().push(key);
        match self.swept {
            Some((swept, value)) if swept == key => Some(value),
            _ => self.table.get(key),
        }
    }

    fn error(&self, value: Value<'_>, key: &str, sentence: impl std::fmt::Display) -> Error {
        self.file.error(value.span(), format_args!("the key '{key}': {sentence}"))
    }

    fn missing(&self, key: &str, such_as: &str) -> Error {
        self.file.error(
            self.span.clone(),
            format_args!("the key '{key}' is missing; add one such as {such_as}"),
        )
    }

    fn text(&self, key: &'static str) -> Result<Option<String>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match value.get_ref().as_str() {
            Some(text) => Ok(Some(text.to_owned())),
            None => Err(self.error(
                value,
                key,
                format_args!("{} is not a text in quotes", written(value)),
            )),
        }
    }

    /// A required text.
    fn needed_text(&self, key: &'static str, such_as: &str) -> Result<String> {
        self.text(key)?.ok_or_else(|| self.missing(key, such_as))
    }

    fn percent(&self, key: &'static str) -> Result<Option<f64>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let percent = scalar(value).and_then(|text| crate::load::profile::parse_percent(&text));
        let wrong = || {
            self.error(
                value,
                key,
                format_args!("{} is not a percentage from 0 to 100", written(value)),
            )
        };
        percent.map(Some).ok_or_else(wrong)
    }

    fn block(&self, value: Value<'_>, key: &str, text: &str) -> Result<ByteCount> {
        text.parse().map_err(|error| self.error(value, key, error))
    }

    fn array(&self, key: &'static str) -> Result<Option<Vec<Value<'a>>>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match value.get_ref().as_array() {
            Some(array) => Ok(Some(array.iter().collect())),
            None => Err(self.error(
                value,
                key,
                format_args!("{} is not a list in brackets", written(value)),
            )),
        }
    }

    fn sections(&self, key: &'static str, header: &str) -> Result<Vec<Section<'a>>> {
        let array = self.array(key)?.unwrap_or_default();
        let section = |value: Value<'a>| match value.get_ref().as_table() {
            Some(table) => Ok(Section::new(self.file, table, value.span())),
            None => Err(self.error(
                value,
                key,
                format_args!("{} is not a table; write {header}", written(value)),
            )),
        };
        array.into_iter().map(section).collect()
    }

    /// Fails for the first key that was not read.
    fn finish(&self) -> Result<()> {
        let asked = self.asked.borrow();
        match self.table.iter().find(|(key, _)| !asked.contains(&key.get_ref().as_ref())) {
            None => Ok(()),
            Some((key, _)) => {
                let mut known = asked.clone();
                known.sort_unstable();
                known.dedup();
                Err(self.file.error(
                    key.span(),
                    format_args!(
                        "the key '{}' is not known here; expected one of {}",
                        key.get_ref(),
                        known.join(", ")
                    ),
                ))
            }
        }
    }
}

/// A value in its inline form; `None` for lists and tables.
fn scalar(value: Value<'_>) -> Option<String> {
    match value.get_ref() {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => Some(number.to_string()),
        DeValue::Float(number) => Some(number.as_str().to_owned()),
        _ => None,
    }
}

fn written(value: Value<'_>) -> String {
    scalar(value)
        .map_or_else(|| format!("this {}", value.get_ref().type_str()), |text| format!("'{text}'"))
}

/// Reads a file.
pub(super) fn group(name: &str, text: &str) -> Result<Group> {
    let file = File { name, text };
    let root = DeTable::parse(text).map_err(|error| {
        let message = error.message().trim().replace('\n', ", ");
        file.error(error.span().unwrap_or(0..0), format_args!("this is not TOML: {message}"))
    })?;
    let section = Section::new(&file, root.get_ref(), 0..0);
    let group = section.needed_text("group", "group = \"mine\"")?;
    let prose = section.needed_text("prose", "prose = \"what our servers see\"")?;
    let source = section.text("source")?;
    let mut entries = Vec::new();
    for workload in section.sections("workload", "[[workload]]")? {
        entries.push(entry(workload, source.as_deref())?);
    }
    section.finish()?;
    if entries.is_empty() {
        return Err(section.missing("workload", "[[workload]]"));
    }
    Ok(Group { name: group, prose, entries })
}

fn entry(mut section: Section<'_>, source: Option<&str>) -> Result<Entry> {
    let name = name(&section)?;
    let prose = section.needed_text("prose", "prose = \"what it stands for\"")?;
    let source = match section.text("source")? {
        Some(own) => own,
        None => source
            .map(str::to_owned)
            .ok_or_else(|| section.missing("source", "source = \"measured by us\""))?,
    };
    let mut aliases = Vec::new();
    for value in section.array("aliases")?.unwrap_or_default() {
        aliases.push(
            scalar(value)
                .ok_or_else(|| section.error(value, "aliases", "an alias is a text in quotes"))?,
        );
    }
    let mut profiles = Vec::new();
    match sweep(&section)? {
        None => profiles.push(profile(&section, &name)?.described(&prose, &source)),
        Some((key, values)) => {
            for value in values {
                let text = scalar(value).ok_or_else(|| {
                    section.error(value, "sweep", "a swept value is a text or a number")
                })?;
                section.swept = Some((key, value));
                let member = format!("{name}-{}", text.split('x').next().unwrap_or(&text));
                profiles.push(profile(&section, &member)?.described(&prose, &source));
            }
            section.swept = None;
        }
    }
    section.finish()?;
    Ok(Entry { name, aliases, prose, source, profiles })
}

fn name(section: &Section<'_>) -> Result<String> {
    let name = section.needed_text("name", "name = \"mail-store\"")?;
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if !name.is_empty() && name.chars().all(plain) {
        return Ok(name);
    }
    let value = section.get("name").map_or(section.span.clone(), Spanned::span);
    Err(section.file.error(
        value,
        format_args!(
            "the key 'name': '{name}' is not a name; use small letters, digits and '-', such as \
                mail-store"
        ),
    ))
}

/// `sweep = { block = ["4K", "8K"] }`: a key with its values.
fn sweep<'a>(section: &Section<'a>) -> Result<Option<(&'a str, Vec<Value<'a>>)>> {
    let Some(value) = section.get("sweep") else { return Ok(None) };
    let wrong = || {
        section.error(
            value,
            "sweep",
            "expected one key with its values, such as { block = [\"4K\", \"8K\"] }",
        )
    };
    let table = value.get_ref().as_table().ok_or_else(wrong)?;
    let mut pairs = table.iter();
    let (Some((key, values)), None) = (pairs.next(), pairs.next()) else { return Err(wrong()) };
    let values =
        values.get_ref().as_array().filter(|values| !values.is_empty()).ok_or_else(wrong)?;
    let swept: &str = key.get_ref();
    let known = REQUEST_KEYS.contains(&swept) || options().iter().any(|option| option.key == swept);
    if !known || ["blocks", "requests"].contains(&swept) {
        return Err(section.error(
            value,
            "sweep",
            format_args!("'{swept}' cannot be swept; block and streams can, for example"),
        ));
    }
    Ok(Some((swept, values.iter().collect())))
}

fn profile(section: &Section<'_>, name: &str) -> Result<Profile> {
    WORKLOAD_KEYS.iter().for_each(|key| section.asked.borrow_mut().push(key));
    let parts = section.sections("component", "[[workload.component]]")?;
    let mut load = match parts.is_empty() {
        true => Load::of(vec![Component::of(kinds(section)?)]),
        false => Load::of(components(section, &parts)?),
    };
    set_options(section, &mut load)?;
    if let Some(value) = section.get("outstanding") {
        let text = scalar(value).unwrap_or_default();
        let text = match text.as_str() {
            "streams" => load.components[0].streams.count.max(1).to_string(),
            _ => text,
        };
        let ladder: Ladder =
            text.parse().map_err(|error| section.error(value, "outstanding", error))?;
        load.outstanding = Some(ladder);
    }
    load.runtime = time(section, "runtime")?;
    load.ramp = time(section, "ramp")?;
    Profile::new(name, load).map_err(|error| {
        section.file.error(section.span.clone(), format_args!("in the workload '{name}', {error}"))
    })
}

/// A time of a workload, such as `"60s"`.
fn time(section: &Section<'_>, key: &'static str) -> Result<Option<Duration>> {
    let Some(value) = section.get(key) else { return Ok(None) };
    let time = scalar(value).and_then(|text| crate::load::profile::parse_time(&text));
    let wrong =
        || section.error(value, key, format_args!("{} is not a time such as 60s", written(value)));
    time.map(Some).ok_or_else(wrong)
}

fn components(section: &Section<'_>, parts: &[Section<'_>]) -> Result<Vec<Component>> {
    if let Some(key) = REQUEST_KEYS.iter().find(|key| section.get(key).is_some()) {
        let sentence = "is not allowed next to components; move it into one of them";
        return Err(section
            .file
            .error(section.span.clone(), format_args!("the key '{key}' {sentence}")));
    }
    let mut components = Vec::new();
    for part in parts {
        let share = part.percent("share")?.ok_or_else(|| part.missing("share", "share = 50"))?;
        let mut load = Load::of(vec![Component::of(kinds(part)?)]);
        set_options(part, &mut load)?;
        for pace in ["rate", "arrivals", "think", "compressible"] {
            if let Some(value) = part.table.get(pace) {
                return Err(part.error(value, pace, "belongs to the workload, not to a component"));
            }
        }
        part.finish()?;
        let area = load.area;
        components.extend(load.components.into_iter().map(|component| Component {
            share,
            area,
            ..component
        }));
    }
    let sum: f64 = components.iter().map(|component| component.share).sum();
    if (sum - 100.0).abs() > 0.01 {
        let sentence = format_args!(
            "the key 'share': the components' shares add up to {sum}% instead of 100%"
        );
        return Err(section.file.error(section.span.clone(), sentence));
    }
    Ok(components)
}

/// The options of the inline form, with the same names.
fn set_options(section: &Section<'_>, load: &mut Load) -> Result<()> {
    for option in options() {
        let Some(value) = section.get(option.key) else { continue };
        let text = scalar(value).unwrap_or_default().to_ascii_lowercase();
        set_option(load, option, &text).map_err(|expected| {
            section.error(
                value,
                option.key,
                format_args!("{} is not understood; expected {expected}", written(value)),
            )
        })?;
    }
    Ok(())
}

/// The kinds of requests of a component.
fn kinds(section: &Section<'_>) -> Result<Vec<RequestKind>> {
    let random = random_percent(section)?;
    let read = section.percent("read")?;
    let kind = |block, share, random_percent, read_percent, align| RequestKind {
        share,
        block,
        read_percent,
        random_percent,
        align,
    };
    let (block, blocks) = (section.get("block"), section.get("blocks"));
    let lines = section.sections("requests", "{ share = 10, block = \"4K\" }")?;
    let needed_random = || random.ok_or_else(|| section.missing("access", "access = \"random\""));
    let needed_read = || read.ok_or_else(|| section.missing("read", "read = 67"));
    match (block, blocks, lines.is_empty()) {
        (Some(value), None, true) => {
            let block = section.block(value, "block", &scalar(value).unwrap_or_default())?;
            Ok(vec![kind(block, 1.0, needed_random()?, needed_read()?, Align::Block)])
        }
        (None, Some(value), true) => {
            let (random, read) = (needed_random()?, needed_read()?);
            let mut kinds = Vec::new();
            for (block, share) in block_shares(section, value)? {
                kinds.push(kind(block, share, random, read, Align::Block));
            }
            Ok(kinds)
        }
        (None, None, false) => {
            let mut kinds = Vec::new();
            for line in &lines {
                kinds.push(request(line, random, read)?);
            }
            check_sum(section, "requests", kinds.iter().map(|kind| kind.share).sum())?;
            Ok(kinds)
        }
        (None, None, true) => Err(section.missing("block", "block = \"8K\"")),
        _ => Err(section.file.error(
            section.span.clone(),
            "the keys 'block', 'blocks' and 'requests' exclude one another; give one of them",
        )),
    }
}

/// A line of `requests`; the component provides missing values.
fn request(line: &Section<'_>, random: Option<f64>, read: Option<f64>) -> Result<RequestKind> {
    let share = line.percent("share")?.ok_or_else(|| line.missing("share", "share = 10"))?;
    let block = line.needed_text("block", "block = \"4K\"")?;
    let block = match line.get("block") {
        Some(value) => line.block(value, "block", &block)?,
        None => return Err(line.missing("block", "block = \"4K\"")),
    };
    let random = random_percent(line)?
        .or(random)
        .ok_or_else(|| line.missing("access", "access = \"random\""))?;
    let read = line.percent("read")?.or(read).ok_or_else(|| line.missing("read", "read = 67"))?;
    let align = match line.get("align") {
        None => Align::Block,
        Some(value) => scalar(value).and_then(|text| Align::parse(&text)).ok_or_else(|| {
            line.error(
                value,
                "align",
                format_args!("{} is not understood; expected 4K, sector or block", written(value)),
            )
        })?,
    };
    line.finish()?;
    Ok(RequestKind { share, block, read_percent: read, random_percent: random, align })
}

/// `access = "random"`, or `random = 80`.
fn random_percent(section: &Section<'_>) -> Result<Option<f64>> {
    let percent = section.percent("random")?;
    let Some(value) = section.get("access") else { return Ok(percent) };
    if percent.is_some() {
        return Err(section.error(value, "access", "conflicts with 'random'; give one of the two"));
    }
    let access = scalar(value).and_then(|text| parse_access_text(&text));
    access.map(Some).ok_or_else(|| {
        section.error(
            value,
            "access",
            format_args!(
                "{} is not a way to access; expected random or sequential",
                written(value)
            ),
        )
    })
}

/// `{ "4K" = 60, "64K" = 40 }`, shortest first.
fn block_shares(section: &Section<'_>, value: Value<'_>) -> Result<Vec<(ByteCount, f64)>> {
    let sentence = "expected sizes and the share of each, such as { \"4K\" = 60, \"64K\" = 40 }";
    let table =
        value.get_ref().as_table().ok_or_else(|| section.error(value, "blocks", sentence))?;
    let mut blocks = Vec::new();
    for (size, share) in table {
        let block = section.block(share, "blocks", size.get_ref())?;
        let percent = scalar(share).and_then(|text| crate::load::profile::parse_percent(&text));
        let percent = percent.ok_or_else(|| {
            section.error(
                share,
                "blocks",
                format_args!("{} is not a percentage from 0 to 100", written(share)),
            )
        })?;
        blocks.push((block, percent));
    }
    blocks.sort_by_key(|(block, _)| *block);
    check_sum(section, "blocks", blocks.iter().map(|(_, share)| share).sum())?;
    Ok(blocks)
}

fn check_sum(section: &Section<'_>, key: &'static str, sum: f64) -> Result<()> {
    match section.get(key) {
        Some(value) if (sum - 100.0).abs() > 0.01 => Err(section.error(
            value,
            key,
            format_args!("the shares add up to {sum}% instead of 100%"),
        )),
        _ => Ok(()),
    }
}
