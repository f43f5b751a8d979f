//! Iometer configurations (`.icf`): their access specifications.
//!
//! A text of sections; a line that begins with an apostrophe says what the lines behind it mean. An access
//! specification has a line with its name and default assignment, and a line of eight numbers for each kind of
//! request: size, % of size, % reads, % random, delay, burst, align, reply. Requests draw a kind by its share, and
//! reads and randomness independently; a sequential request goes on where the last one ended. `align` is in bytes, 0
//! for sectors. After `burst` requests a worker pauses for `delay` milliseconds. `reply` concerns network workers.

use super::{Import, wrong};
use crate::error::Result;
use crate::load::area::short_size;
use crate::load::catalog::Group;
use crate::load::profile::{Align, Component, Load, Pace, RequestKind};
use std::time::Duration;
use units::ByteCount;

/// A specification as far as it was read.
struct Spec {
    line: usize,
    name: String,
    kinds: Vec<RequestKind>,
    /// Delay in milliseconds and burst of each kind.
    pauses: Vec<(u64, u64)>,
    sum: u64,
}

/// The access specifications of an Iometer configuration as a group of load profiles, and what else it says that is
/// no part of a load profile.
///
/// # Errors
/// When it has none, or one of them cannot be understood; the sentence names file and line.
pub fn import_icf(file: &str, text: &str) -> Result<(Group, Vec<String>)> {
    let mut import = Import::new(file, "access specifications of an Iometer configuration");
    let (mut section, mut key) = (String::new(), String::new());
    let mut spec: Option<Spec> = None;
    for (at, line) in text.lines().enumerate() {
        let line_number = at + 1;
        let line = line.trim();
        if let Some(comment) = line.strip_prefix('\'') {
            let comment = comment.trim().to_ascii_lowercase();
            if comment.starts_with("end ") {
                finish(&mut import, spec.take())?;
                section.clear();
            } else if comment.ends_with('=') {
                section = comment.trim_end_matches(['=', ' ']).to_owned();
                said(&mut import, line_number, &section);
            }
            key = comment;
            continue;
        }
        if line.is_empty() || line.to_ascii_lowercase().starts_with("version ") {
            continue;
        }
        if section != "access specifications" {
            hint(&mut import, line_number, &key, line);
        } else if key.starts_with("access specification name") {
            finish(&mut import, spec.take())?;
            let name = line.rsplit_once(',').map_or(line, |(name, _)| name).trim().to_owned();
            spec = Some(Spec { line: line_number, name, kinds: Vec::new(), pauses: Vec::new(), sum: 0 });
        } else if let Some(spec) = &mut spec {
            kind(&mut import, spec, line_number, line)?;
        } else {
            return Err(wrong(
                file,
                line_number,
                format_args!("'{line}' stands before any access specification"),
            ));
        }
    }
    finish(&mut import, spec)?;
    import.finish("there is no access specification in this file; expected a section 'ACCESS SPECIFICATIONS")
}

/// Says that a section is left out.
fn said(import: &mut Import<'_>, line: usize, section: &str) {
    if section != "access specifications" {
        import
            .note(line, format_args!("the section '{section}' is no part of a load profile and is left out"));
    }
}

/// Says how a setting that is left out is made here.
fn hint(import: &mut Import<'_>, line: usize, key: &str, value: &str) {
    let first = |value: &str| value.split(',').next().unwrap_or(value).trim().to_owned();
    let hint = if key.starts_with("ramp up time") {
        format!("--ramp {}s", first(value))
    } else if key.starts_with("hours") {
        let parts: Vec<u64> = value.split_whitespace().filter_map(|part| part.parse().ok()).collect();
        let [hours, minutes, seconds] = parts[..] else { return };
        let whole = [(hours, 3600), (minutes, 60), (seconds, 1)];
        let sum =
            whole.iter().try_fold(0_u64, |sum, (count, each)| sum.checked_add(count.checked_mul(*each)?));
        let Some(sum) = sum else { return };
        format!("--runtime {sum}s")
    } else if key.starts_with("number of outstanding ios") {
        format!("--outstanding {}", first(value))
    } else if key.starts_with("default disk workers") {
        format!("--workers {}", first(value))
    } else {
        return;
    };
    import.note(line, format_args!("'{value}' is left out; use {hint} when measuring"));
}

fn kind(import: &mut Import<'_>, spec: &mut Spec, line: usize, text: &str) -> Result<()> {
    let file = import.file;
    let numbers = text
        .split(',')
        .map(|number| number.trim().parse::<u64>())
        .collect::<std::result::Result<Vec<_>, _>>()
        .map_err(|_| wrong(file, line, format_args!("'{text}' is not a list of whole numbers")))?;
    let [size, share, reads, random, delay, burst, align, reply] = numbers[..] else {
        return Err(wrong(
            file,
            line,
            format_args!(
                "'{text}' has {} numbers; expected eight: size, % of size, % reads, % random, delay, burst, align, reply",
                numbers.len()
            ),
        ));
    };
    for (percent, what) in [(share, "of size"), (reads, "reads"), (random, "random")] {
        if percent > 100 {
            return Err(wrong(file, line, format_args!("{percent} % {what} is more than 100 %")));
        }
    }
    if size == 0 || size % 512 != 0 {
        return Err(wrong(
            file,
            line,
            format_args!("a size of {size} bytes is not whole sectors of 512 bytes"),
        ));
    }
    if reply != 0 {
        import.note(line, format_args!("the reply of {reply} bytes is for networks and is left out"));
    }
    let align = match align {
        0 => Align::Sector,
        align if align == size => Align::Block,
        align => Align::Bytes(ByteCount(align)),
    };
    spec.sum += share;
    if share > 0 {
        spec.kinds.push(RequestKind {
            share: share as f64,
            block: ByteCount(size),
            read_percent: reads as f64,
            random_percent: random as f64,
            align,
        });
        spec.pauses.push((delay, burst.max(1)));
    }
    Ok(())
}

fn finish(import: &mut Import<'_>, spec: Option<Spec>) -> Result<()> {
    let Some(spec) = spec else { return Ok(()) };
    if spec.sum != 100 {
        return Err(wrong(
            import.file,
            spec.line,
            format_args!(
                "the shares of the access specification '{}' make {} %; they must make 100 %",
                spec.name, spec.sum
            ),
        ));
    }
    let mut load = Load::of(vec![Component::of(spec.kinds)]);
    match &spec.pauses[..] {
        [first, rest @ ..] if rest.iter().all(|pause| pause == first) => {
            let burst = u32::try_from(first.1).unwrap_or(u32::MAX);
            load.pace = Pace::Closed { think: Duration::from_millis(first.0), burst };
            if first.0 == 0 {
                load.pace = Pace::BACK_TO_BACK;
            }
        }
        _ => import.note(
            spec.line,
            format_args!(
                "the kinds of requests of '{}' have different delays or bursts, which are left out",
                spec.name
            ),
        ),
    }
    let sizes: Vec<String> = load.components[0].kinds.iter().map(|kind| short_size(kind.block)).collect();
    let prose = format!("the access specification '{}' ({})", spec.name, sizes.join(", "));
    let source = format!("imported from the Iometer configuration {}", import.file);
    import.add(spec.line, &spec.name, prose, source, load)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::profile::Profile;

    /// As Iometer 1.1.0 writes it, shortened.
    const ICF: &str = "Version 1.1.0 \n\
        'TEST SETUP ====================================================================\n\
        'Test Description\n\t\n\
        'Run Time\n'\thours      minutes    seconds\n\t0          10         30\n\
        'Ramp Up Time (s)\n\t30\n\
        'Default Disk Workers to Spawn\n\tNUMBER_OF_CPUS\n\
        'END test setup\n\
        'RESULTS DISPLAY ===============================================================\n\
        'Record Last Update Results,Update Frequency,Update Type\n\tDISABLED,1,LAST_UPDATE\n\
        'END results display\n\
        'ACCESS SPECIFICATIONS =========================================================\n\
        'Access specification name,default assignment\n\tFile Server (Intel),NONE\n\
        'size,% of size,% reads,% random,delay,burst,align,reply\n\
        \t512,10,80,100,0,1,0,0\n\t1024,5,80,100,0,1,0,0\n\t2048,5,80,100,0,1,0,0\n\t4096,60,80,100,0,1,0,0\n\
        \t8192,2,80,100,0,1,0,0\n\t16384,4,80,100,0,1,0,0\n\t32768,4,80,100,0,1,0,0\n\t65536,10,80,100,0,1,0,0\n\
        'Access specification name,default assignment\n\tlog, paced,ALL\n\
        'size,% of size,% reads,% random,delay,burst,align,reply\n\t65536,100,0,0,20,4,65536,0\n\
        'END access specifications\n\
        'MANAGER LIST ==================================================================\n\
        'Number of outstanding IOs,test connection rate,transactions per connection\n\t16,DISABLED,1\n\
        'END manager list\nVersion 1.1.0 \n";

    #[test]
    fn access_specifications_become_profiles_and_the_rest_is_said() {
        let (group, notes) = import_icf("lab/test.icf", ICF).unwrap();
        let profiles: Vec<&Profile> = group.entries.iter().map(|entry| &entry.profiles[0]).collect();
        let classic: Profile = "iometer-file-server".parse().unwrap();
        assert_eq!(profiles[0].load(), classic.load());
        assert_eq!((profiles[0].name(), group.name.as_str()), ("file-server-intel", "test"));
        assert_eq!(profiles[1].description(), "sequential, write, 64 KiB, 20ms pause after 4");
        assert_eq!(
            notes,
            [
                "lab/test.icf:2: the section 'test setup' is no part of a load profile and is left out",
                "lab/test.icf:7: '0          10         30' is left out; use --runtime 630s when measuring",
                "lab/test.icf:9: '30' is left out; use --ramp 30s when measuring",
                "lab/test.icf:11: 'NUMBER_OF_CPUS' is left out; use --workers NUMBER_OF_CPUS when measuring",
                "lab/test.icf:13: the section 'results display' is no part of a load profile and is left out",
                "lab/test.icf:19: 'File Server (Intel)' becomes the load profile 'file-server-intel'",
                "lab/test.icf:30: 'log, paced' becomes the load profile 'log-paced'",
                "lab/test.icf:34: the section 'manager list' is no part of a load profile and is left out",
                "lab/test.icf:36: '16,DISABLED,1' is left out; use --outstanding 16 when measuring",
            ]
        );
    }

    #[test]
    fn what_is_imported_is_a_catalogs_file() {
        let (group, _) = import_icf("test.icf", ICF).unwrap();
        let mut catalog = crate::Catalog::builtin().clone();
        catalog.read("test.toml", &group.to_toml()).unwrap();
        assert_eq!(catalog.select("file-server-intel").unwrap()[0].read_percent(), 80);
    }

    #[test]
    fn a_wrong_specification_is_named_with_its_line() {
        for (from, to, part) in [
            (
                "\t512,10,80",
                "\t512,11,80",
                "test.icf:19: the shares of the access specification 'File Server (Intel)' make 101 %",
            ),
            ("\t512,10,80", "\t500,10,80", "test.icf:21: a size of 500 bytes is not whole sectors"),
            ("\t512,10,80", "\t512,10,180", "test.icf:21: 180 % reads is more than 100 %"),
            (
                "\t512,10,80,100,0,1,0,0",
                "\t512,10,80,100,0,1",
                "test.icf:21: '512,10,80,100,0,1' has 6 numbers; expected eight",
            ),
            ("\t512,10,80", "\tmany,10,80", "test.icf:21: 'many,10,80,100,0,1,0,0' is not a list"),
            ("'ACCESS SPEC", "'OTHER SPEC", "test.icf:1: there is no access specification in this file"),
        ] {
            let error = import_icf("test.icf", &ICF.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
