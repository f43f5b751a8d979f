//! Load profiles: access, read share and block size.

use crate::error::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use units::ByteCount;

/// Where the next request goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    /// Any block of the area, each as likely as the other.
    Random,
    /// The block after the last one.
    Sequential,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Access::Random => "random",
            Access::Sequential => "sequential",
        })
    }
}

/// A load profile: what one request after another looks like.
///
/// ```
/// use storagebench::Profile;
/// let database: Profile = "database".parse().unwrap();
/// let inline: Profile = "random,67%read,8K".parse().unwrap();
/// assert_eq!(database.block(), inline.block());
/// assert_eq!(inline.name(), "random,67%read,8K");
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Profile {
    name: Cow<'static, str>,
    access: Access,
    read_percent: u8,
    block: ByteCount,
}

/// One of the standard profiles that storage white papers compare disk subsystems by.
#[derive(Clone, Copy, Debug)]
pub struct StandardProfile {
    /// Its name on the command line and in results.
    pub name: &'static str,
    /// Other names it answers to.
    pub aliases: &'static [&'static str],
    /// What it stands for, in a line.
    pub prose: &'static str,
    /// Where requests go.
    pub access: Access,
    /// How many of a hundred requests read.
    pub read_percent: u8,
    /// The length of a request.
    pub block: ByteCount,
}

/// The five standard profiles, in the order in which reports show them. Source: the load profiles of Fujitsu's
/// white papers on RAID controller performance (2013 and 2016).
pub const STANDARD_PROFILES: [StandardProfile; 5] = [
    StandardProfile {
        name: "file-copy",
        aliases: &["filecopy", "copy"],
        prose: "copying files: as much is read as is written, all over the area",
        access: Access::Random,
        read_percent: 50,
        block: ByteCount(64 << 10),
    },
    StandardProfile {
        name: "file-server",
        aliases: &["fileserver"],
        prose: "a file server: two reads for every write, in large blocks",
        access: Access::Random,
        read_percent: 67,
        block: ByteCount(64 << 10),
    },
    StandardProfile {
        name: "database",
        aliases: &["db"],
        prose: "a database's or a mail server's data: two reads for every write, in small blocks",
        access: Access::Random,
        read_percent: 67,
        block: ByteCount(8 << 10),
    },
    StandardProfile {
        name: "streaming",
        aliases: &["stream"],
        prose: "reading from end to end: a backup, a video, a scan of a table",
        access: Access::Sequential,
        read_percent: 100,
        block: ByteCount(64 << 10),
    },
    StandardProfile {
        name: "restore",
        aliases: &["seq-write"],
        prose: "writing from end to end: restoring files from a backup",
        access: Access::Sequential,
        read_percent: 0,
        block: ByteCount(64 << 10),
    },
];

/// The largest request.
const MAX_BLOCK: ByteCount = ByteCount(16 << 20);

impl StandardProfile {
    /// The profile itself.
    pub const fn profile(&self) -> Profile {
        Profile {
            name: Cow::Borrowed(self.name),
            access: self.access,
            read_percent: self.read_percent,
            block: self.block,
        }
    }
}

impl Profile {
    /// A profile with its inline form as its name. `block`: the length of every request, whole 512-byte
    /// sectors up to 16 MiB.
    ///
    /// # Errors
    /// When the share is more than 100 % or the block is no length a request can have.
    pub fn new(access: Access, read_percent: u8, block: ByteCount) -> Result<Profile> {
        if read_percent > 100 {
            return Err(Error::new(
                ErrorKind::BadProfile,
                format!(
                    "a read share of {read_percent}% is more than 100%; give a whole number from 0 to 100"
                ),
            ));
        }
        if block.is_zero() || !block.is_aligned(ByteCount(512)) || block > MAX_BLOCK {
            return Err(Error::new(
                ErrorKind::BadProfile,
                format!(
                    "a block of {block} cannot be requested; give a multiple of 512 bytes up to {MAX_BLOCK}, such as 8K"
                ),
            ));
        }
        let name = format!("{access},{read_percent}%read,{}", short_size(block));
        Ok(Profile { name: Cow::Owned(name), access, read_percent, block })
    }

    /// All standard profiles, in the order of reports.
    pub fn standard() -> Vec<Profile> {
        STANDARD_PROFILES.iter().map(StandardProfile::profile).collect()
    }

    /// The name in results: a standard one or the inline form.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where requests go.
    pub fn access(&self) -> Access {
        self.access
    }

    /// How many of a hundred requests read, on average.
    pub fn read_percent(&self) -> u8 {
        self.read_percent
    }

    /// The length of every request.
    pub fn block(&self) -> ByteCount {
        self.block
    }

    /// Whether any request reads.
    pub fn reads(&self) -> bool {
        self.read_percent > 0
    }

    /// Whether any request writes.
    pub fn writes(&self) -> bool {
        self.read_percent < 100
    }

    /// What it does, in a line: `random, 67% read, 8 KiB`.
    pub fn description(&self) -> String {
        let share = match self.read_percent {
            100 => "read".to_owned(),
            0 => "write".to_owned(),
            percent => format!("{percent}% read"),
        };
        format!("{}, {share}, {}", self.access, self.block)
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl FromStr for Profile {
    type Err = Error;

    /// A standard name or alias, or the inline form `ACCESS,SHARE,BLOCK`.
    fn from_str(text: &str) -> Result<Profile> {
        let plain = text.trim().to_ascii_lowercase();
        let name = plain.replace(['_', ' '], "-");
        if let Some(standard) = STANDARD_PROFILES
            .iter()
            .find(|standard| standard.name == name || standard.aliases.contains(&name.as_str()))
        {
            return Ok(standard.profile());
        }
        if !plain.contains(',') {
            let names: Vec<&str> = STANDARD_PROFILES.iter().map(|standard| standard.name).collect();
            return Err(wrong(format!(
                "'{text}' is not a load profile; choose one of {}, or describe one, such as random,67%read,8K",
                names.join(", ")
            )));
        }
        let parts: Vec<&str> = plain.split(',').map(str::trim).collect();
        let [access, share, block] = parts[..] else {
            return Err(wrong(format!(
                "the load profile '{text}' has {} parts; expected three, ACCESS,SHARE,BLOCK, such as random,67%read,8K",
                parts.len()
            )));
        };
        let block = block
            .parse::<ByteCount>()
            .map_err(|error| wrong(format!("in the load profile '{text}', the block size {error}")))?;
        Profile::new(parse_access(text, access)?, parse_share(text, share)?, block)
    }
}

fn wrong(context: String) -> Error {
    Error::new(ErrorKind::BadProfile, context)
}

fn parse_access(whole: &str, text: &str) -> Result<Access> {
    match text {
        "random" | "rand" => Ok(Access::Random),
        "sequential" | "seq" => Ok(Access::Sequential),
        _ => Err(wrong(format!(
            "in the load profile '{whole}', '{text}' is not a way to access; expected random or sequential"
        ))),
    }
}

/// `67%read`, `33%write`, `read`, `write`.
fn parse_share(whole: &str, text: &str) -> Result<u8> {
    let wrong = || {
        wrong(format!(
            "in the load profile '{whole}', '{text}' is not a share of reads; expected a percentage from 0 to 100, such as 67%read"
        ))
    };
    let (number, reads) = match (text.strip_suffix("read"), text.strip_suffix("write")) {
        (Some(number), _) => (number, true),
        (_, Some(number)) => (number, false),
        _ => return Err(wrong()),
    };
    let percent = match number.trim().strip_suffix('%') {
        Some(number) => number.trim().parse().ok().filter(|percent| *percent <= 100).ok_or_else(wrong)?,
        None if number.is_empty() => 100,
        None => return Err(wrong()),
    };
    Ok(if reads { percent } else { 100 - percent })
}

/// A size as people write it: `8K`, `1M`, `1536`.
fn short_size(size: ByteCount) -> String {
    let (mut number, mut unit) = (size.0, 0);
    while number >= 1024 && number.is_multiple_of(1024) {
        number /= 1024;
        unit += 1;
    }
    format!("{number}{}", ["", "K", "M", "G", "T", "P", "E"][unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standard_profiles_are_the_white_papers() {
        let table: Vec<String> = Profile::standard()
            .iter()
            .map(|profile| format!("{}: {}", profile.name(), profile.description()))
            .collect();
        assert_eq!(
            table,
            [
                "file-copy: random, 50% read, 64 KiB",
                "file-server: random, 67% read, 64 KiB",
                "database: random, 67% read, 8 KiB",
                "streaming: sequential, read, 64 KiB",
                "restore: sequential, write, 64 KiB",
            ]
        );
    }

    #[test]
    fn every_name_and_alias_names_one_profile() {
        let mut seen = Vec::new();
        for standard in &STANDARD_PROFILES {
            for name in std::iter::once(&standard.name).chain(standard.aliases) {
                assert!(!seen.contains(name), "{name} twice");
                seen.push(name);
                assert_eq!(name.parse::<Profile>().unwrap().name(), standard.name);
            }
            assert!(!standard.prose.is_empty() && !standard.prose.contains('\n'));
        }
        assert_eq!("File Server".parse::<Profile>().unwrap().name(), "file-server");
    }

    #[test]
    fn inline_profiles_say_what_they_are() {
        for (text, access, reads, block, name) in [
            ("random,67%read,8K", Access::Random, 67, 8 << 10, "random,67%read,8K"),
            ("Sequential, 100% read, 64k", Access::Sequential, 100, 64 << 10, "sequential,100%read,64K"),
            ("seq,write,1M", Access::Sequential, 0, 1 << 20, "sequential,0%read,1M"),
            ("rand,30%write,1536", Access::Random, 70, 1536, "random,70%read,1536"),
            ("random,read,512", Access::Random, 100, 512, "random,100%read,512"),
        ] {
            let profile: Profile = text.parse().unwrap();
            assert_eq!((profile.access(), profile.read_percent()), (access, reads), "{text}");
            assert_eq!((profile.block(), profile.name()), (ByteCount(block), name));
            assert_eq!(name.parse::<Profile>().unwrap(), profile, "the name is parsed back");
        }
    }

    #[test]
    fn a_wrong_profile_gets_a_sentence_that_names_the_part() {
        for (text, part) in [
            ("databse", "'databse' is not a load profile; choose one of file-copy, file-server"),
            ("random,67%read", "has 2 parts"),
            ("random,67%read,8K,9K", "has 4 parts"),
            ("zigzag,67%read,8K", "'zigzag' is not a way to access"),
            ("random,67%reed,8K", "'67%reed' is not a share of reads"),
            ("random,167%read,8K", "'167%read' is not a share of reads"),
            ("random,67read,8K", "'67read' is not a share of reads"),
            ("random,67%read,8X", "the block size '8x' is not a size"),
            ("random,67%read,0", "a block of 0 B"),
            ("random,67%read,1000", "a block of 1000 B"),
            ("random,67%read,1G", "a block of 1 GiB"),
        ] {
            let error = text.parse::<Profile>().unwrap_err();
            assert_eq!(error.kind, ErrorKind::BadProfile);
            assert!(error.to_string().contains(part), "{text}: {error}");
        }
    }
}
