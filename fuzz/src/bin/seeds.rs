//! Writes seed inputs from the fixtures of other tests: `fuzz-seeds FOLDER` fills `FOLDER/TARGET/`,
//! and prints each target's name and the maximum length of its inputs, for `scripts/fuzz`.

#![expect(clippy::disallowed_methods, reason = "a tool that reads and writes files")]

use fuzz::drives::{Disk, SEAL, encode};
use std::io::{Error, Result};
use std::path::{Path, PathBuf};

fn main() -> Result<()> {
    let folder =
        std::env::args().nth(1).ok_or_else(|| Error::other("name the folder to write to"))?;
    let folder = Path::new(&folder);
    for target in fuzz::TARGETS {
        let seeds = match target.name {
            "ddf" => ddf()?,
            "foreign" => foreign()?,
            "partitions" => partitions(),
            "signatures" => signatures(),
            "label" => label(),
            "log-device" => log_device(),
            "intent" => intent(),
            "journal" => fuzz::journals(),
            "redfish" => fuzz::redfish_requests(),
            "nbd-server" => nbd::fuzz::seeds().0,
            "nbd-client" => nbd::fuzz::seeds().1,
            "guest-queue" => guests::fuzz::seeds(),
            "catalog" => catalog()?,
            "results" => results(),
            "storcli" => fuzz::command_lines(),
            name => texts(name),
        };
        let into = folder.join(target.name);
        std::fs::create_dir_all(&into)?;
        for (number, seed) in seeds.iter().enumerate() {
            std::fs::write(into.join(format!("seed-{number:03}")), seed)?;
        }
        println!("{} {}", target.name, target.longest);
    }
    Ok(())
}

fn tests_of(what: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(what)
}

fn hex(text: &str) -> Vec<u8> {
    let digit = |byte: u8| (byte as char).to_digit(16).unwrap_or(0) as u8;
    text.as_bytes()
        .chunks(2)
        .map(|pair| digit(pair[0]) << 4 | pair.get(1).map_or(0, |low| digit(*low)))
        .collect()
}

/// The reference images' metadata: the first drive in full, and the differences of the others.
fn ddf() -> Result<Vec<Vec<u8>>> {
    let mut seeds = Vec::new();
    let mut files: Vec<PathBuf> = std::fs::read_dir(tests_of("crates/ondisk/tests/ddf/images"))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_>>()?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "txt"));
    files.sort();
    for file in files {
        let mut disks: Vec<Disk> = Vec::new();
        for line in std::fs::read_to_string(&file)?.lines() {
            let Some((at, rest)) = line.split_once(' ') else { continue };
            if at == "drive" {
                let size = rest.parse().map_err(Error::other)?;
                let parts = disks.first().map(|disk| disk.parts.clone()).unwrap_or_default();
                disks.push(Disk { size, filler: 0xFF, serial: String::new(), parts, seals: false });
                continue;
            }
            let at: u64 = at.parse().map_err(Error::other)?;
            let Some(disk) = disks.last_mut() else { continue };
            disk.parts.push((512 * at, sector(rest)));
            // The secondary copy equals the primary one.
            if (65_537..66_154).contains(&at) {
                disk.parts.push((512 * (at - 32_768), sector(rest)));
            }
        }
        // Overwritten parts are not needed.
        for disk in &mut disks {
            let mut last = std::collections::BTreeMap::new();
            disk.parts.drain(..).for_each(|(at, bytes)| {
                last.insert(at, bytes);
            });
            disk.parts = last.into_iter().collect();
        }
        seeds.push(encode(0, &disks));
        seeds.push(encode(SEAL, &disks[..disks.len().min(2)]));
        seeds.push(encode(SEAL, &disks[..disks.len().min(1)]));
    }
    Ok(seeds)
}

fn sector(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in text.split(' ') {
        match word.split_once('*') {
            Some((byte, times)) => bytes.extend(hex(byte).repeat(times.parse().unwrap_or(0))),
            None => bytes.extend(hex(word)),
        }
    }
    bytes
}

/// Superblocks and firmware RAID metadata from the tests.
fn foreign() -> Result<Vec<Vec<u8>>> {
    let text = std::fs::read_to_string(tests_of("crates/ondisk/tests/foreign/metadata.txt"))?;
    let mut seeds = Vec::new();
    for array in text.split("\n\n").filter_map(|part| part.trim().strip_prefix("array ")) {
        let mut disks: Vec<Disk> = Vec::new();
        let mut part = 0;
        for line in array.lines().skip(1) {
            if let Some(rest) = line.strip_prefix("drive ") {
                let rest = rest.split_once(": ").map_or("", |(_, rest)| rest);
                let (sectors, serial) = rest.split_once(", serial ").unwrap_or((rest, ""));
                let sectors: u64 =
                    sectors.trim_end_matches(" sectors").parse().map_err(Error::other)?;
                let serial = serial.to_owned();
                disks.push(Disk {
                    size: 512 * sectors,
                    filler: 0,
                    serial,
                    parts: Vec::new(),
                    seals: true,
                });
                part = 0;
            } else if let Some(place) = line.strip_prefix("at ") {
                let (sector, len) = place.split_once(": ").unwrap_or((place, "0"));
                let len: usize = len.trim_end_matches(" bytes").parse().map_err(Error::other)?;
                let before = disks.iter().rev().skip(1).find_map(|disk| disk.parts.get(part));
                let mut bytes = before.map(|(_, bytes)| bytes.clone()).unwrap_or_default();
                bytes.resize(len, 0);
                let at = 512 * sector.parse::<u64>().map_err(Error::other)?;
                disks.last_mut().into_iter().for_each(|disk| disk.parts.push((at, bytes.clone())));
                part += 1;
            } else if let Some((at, row)) =
                line.split_once(' ').filter(|_| !line.starts_with("said"))
            {
                let at = usize::from_str_radix(at, 16).map_err(Error::other)?;
                let row = match row.strip_suffix('*') {
                    Some(same) => hex(same).repeat(32),
                    None => hex(row),
                };
                if let Some((_, bytes)) = disks.last_mut().and_then(|disk| disk.parts.last_mut()) {
                    bytes[at..at + row.len()].copy_from_slice(&row);
                }
            }
        }
        seeds.push(encode(0, &disks));
        seeds.push(encode(SEAL, &disks[..1]));
        seeds.push(encode(SEAL, &disks[..disks.len().min(2)]));
    }
    Ok(seeds)
}

fn disk(size: u64, parts: Vec<(u64, Vec<u8>)>) -> Vec<u8> {
    encode(0, &[Disk { size, filler: 0, serial: String::new(), parts, seals: false }])
}

fn partitions() -> Vec<Vec<u8>> {
    let entry = |kind: u8, start: u32, len: u32| {
        let mut entry = vec![0, 0, 0, 0, kind, 0, 0, 0];
        entry.extend(start.to_le_bytes());
        entry.extend(len.to_le_bytes());
        entry
    };
    let table = |at: u64, entries: &[Vec<u8>]| {
        let mut bytes = entries.concat();
        bytes.resize(64, 0);
        bytes.extend([0x55, 0xAA]);
        (512 * at + 446, bytes)
    };
    let extended = vec![
        table(0, &[entry(0x83, 64, 100), entry(0x05, 400, 1000)]),
        table(400, &[entry(0xFD, 2, 50), entry(0x05, 100, 60)]),
        table(500, &[entry(0xFD, 2, 40), entry(0x05, 200, 60)]),
        table(600, &[entry(0x83, 2, 40)]),
    ];
    let header = |block: u64, at: u64| {
        let mut bytes = b"EFI PART\0\0\x01\0\x5C\0\0\0".to_vec();
        bytes.resize(72, 0);
        bytes.extend(2_u64.to_le_bytes());
        bytes.extend(128_u32.to_le_bytes());
        bytes.extend(128_u32.to_le_bytes());
        let mut partition = vec![7; 32];
        partition.extend(34_u64.to_le_bytes());
        partition.extend(99_u64.to_le_bytes());
        vec![(at * block, bytes), (2 * block + 128, partition)]
    };
    let mut protective = header(512, 1);
    protective.push(table(0, &[entry(0xEE, 1, 2047)]));
    vec![
        disk(1 << 20, extended),
        disk(1 << 20, protective),
        disk(1 << 20, header(512, 2047)),
        disk(1 << 22, header(4096, 1)),
    ]
}

/// Magic numbers, at the offsets of their formats.
fn signatures() -> Vec<Vec<u8>> {
    let places: [(usize, &[u8]); 12] = [
        (0, b"XFSB"),
        (3, b"NTFS    "),
        (54, b"FAT16   "),
        (82, b"FAT32   "),
        (510, &[0x55, 0xAA]),
        (512, b"LABELONE"),
        (512, b"EFI PART"),
        (1024, b"H+\0\x04"),
        (1024 + 56, &[0x53, 0xEF]),
        (0, b"LUKS\xBA\xBE\0\x02"),
        (4086, b"SWAPSPACE2"),
        (4096, &[0xFC, 0x4E, 0x2B, 0xA9, 1, 0, 0, 0]),
    ];
    let seed = |at: usize, magic: &[u8]| {
        let mut seed = (1_u64 << 20).to_le_bytes().to_vec();
        seed.extend(((at + 512).min(8000) as u16).to_le_bytes());
        seed.resize(10 + at, 0);
        seed.extend(magic);
        seed.resize(10 + at + 600, 0);
        seed
    };
    let mut seeds: Vec<Vec<u8>> = places.iter().map(|(at, magic)| seed(*at, magic)).collect();
    let mut all = seed(4096, b"all");
    for (at, magic) in places {
        all[10 + at..10 + at + magic.len()].copy_from_slice(magic);
    }
    seeds.push(all);
    seeds
}

/// The version byte, and the text of a member and of a spare.
fn label() -> Vec<Vec<u8>> {
    let uuid = |byte: &str| {
        format!(
            "{0}{0}{0}{0}-{0}{0}-4{1}{0}-8{1}{0}-{0}{0}{0}{0}{0}{0}",
            byte.repeat(2),
            &byte[..1]
        )
    };
    let (array, drive) = (uuid("1"), uuid("2"));
    let member = format!(
        "array = \"{array}\"\ndrive = \"{drive}\"\ngeneration = 3\nconfirmed = 2\nphase = \
            \"online\"\nclean = true\n\n[policy]\nmedium_error_limit = 100\ncopyback = \
            true\nemergency_spare = false\ndrive_guard = true\nmixed_kinds = \
            false\ntask_share_percent = 30\n\n[[volume]]\nname = \"data\"\n\n[[member]]\nuuid = \
            \"{drive}\"\nname = \"d0\"\nstate = \"online\"\nsince = 1\n"
    );
    let seed = |array: u8, text: &str| {
        let mut seed = vec![1];
        seed.extend(b"SoftROC\0");
        seed.extend(2_u32.to_le_bytes());
        seed.extend([0; 4]);
        seed.extend(5_u64.to_le_bytes());
        seed.extend([0; 8]);
        seed.extend([array; 16]);
        seed.extend([0x22; 16]);
        seed.extend(text.as_bytes());
        seed
    };
    vec![seed(0x11, &member), seed(0, &format!("drive = \"{drive}\"\n"))]
}

/// The labels of log devices: one copy, two copies, and one with a valid head and nothing else.
fn log_device() -> Vec<Vec<u8>> {
    let uuid = |digit: char| {
        "88888888-4444-4444-8444-cccccccccccc".replace(|c: char| c != '-', &digit.to_string())
    };
    let text = |generation: u32, devices: &str, journals: u32| {
        let mut text =
            format!("log = \"{}\"\ngeneration = {generation}\nsince_unix_s = 1\n", uuid('a'));
        for digit in devices.chars() {
            text += &format!("\n[[devices]]\nuuid = \"{}\"\nname = \"d{digit}\"\n", uuid(digit));
        }
        for number in 0..journals {
            let volume = uuid(char::from_digit(number, 10).unwrap_or('9'));
            let start = 1_048_576 * (number + 1);
            text += &format!(
                "\n[[place]]\nvolume = \"{volume}\"\nname = \"v\"\nstart_bytes = \
                    {start}\nlen_bytes = 1048576\n"
            );
        }
        text
    };
    let (one, two) = (text(7, "b", 1), text(8, "bc", 2));
    vec![
        [b"\x01", one.as_bytes()].concat(),
        [b"\x01\xFF", two.as_bytes()].concat(),
        [b"\x01", one.as_bytes(), b"\xFF", two.as_bytes()].concat(),
        [b"\0SRoClogd\x02\0\0\0", one.as_bytes()].concat(),
    ]
}

fn intent() -> Vec<Vec<u8>> {
    let block = |sequence: u64, bits: u8| {
        let mut block = b"SRoCwmap".to_vec();
        block.extend(1_u32.to_le_bytes());
        block.extend([0; 20]);
        block.extend(sequence.to_le_bytes());
        block.resize(64, 0);
        block.resize(256, bits);
        block
    };
    let head = |flags: u8, regions: u8| [vec![flags, regions], vec![7; 16]].concat();
    vec![
        [head(1, 1), block(2, 1), block(3, 0x80)].concat(),
        [head(1, 200), block(2, 1), block(3, 0), block(4, 0xFF), block(1, 0)].concat(),
        [head(3, 5), block(2, 1), block(3, 0), block(4, 0xFF)].concat(),
        head(0, 9),
    ]
}

fn catalog() -> Result<Vec<Vec<u8>>> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(tests_of("catalog/workloads"))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_>>()?;
    files.sort();
    files
        .iter()
        .map(|file| {
            std::fs::read(file).map(|mut bytes| {
                bytes.truncate(4096);
                // Truncate at the end of a workload.
                let end = String::from_utf8_lossy(&bytes).rfind("\n[[").unwrap_or(bytes.len());
                bytes.truncate(end);
                bytes
            })
        })
        .collect()
}

fn results() -> Vec<Vec<u8>> {
    use storagebench::{Environment, Method, Results, Settings};
    let results = Results::new(Method::of(&Settings::default()), Environment::default());
    let row = r#"{"target":"t","profile":"p","access":"random","read_percent":67,"block_bytes":8192,"outstanding":4,"workers":1,"duration_s":1.0,"ios":10,"iops":10.0,"throughput_mib_s":0.1,"latency_us":{"mean":1.0,"p50":1.0,"p90":1.0,"p99":1.0,"p999":1.0,"max":2.0},"cpu_percent":1.0,"errors":0,"read":null,"write":null}"#;
    let json = results.to_json();
    vec![
        json.clone().into_bytes(),
        json.replace("\"rows\": []", &format!("\"rows\": [{row}]")).into_bytes(),
    ]
}

/// Iometer configurations.
const ICF: &[&str] = &[
    "Version 1.1.0 \n\
     'ACCESS SPECIFICATIONS =========================================================\n\
     'Access specification name,default assignment\n\tfile server,NONE\n\
     'size,% of size,% reads,% random,delay,burst,align,reply\n\t512,10,80,100,0,1,0,0\n\
     \t4096,60,80,100,0,1,0,0\n\t65536,30,80,100,10,4,4096,512\n\
     'End access specifications\n",
    "Version 2006.07.27 \n'ACCESS SPECIFICATIONS ===\n\
     'Access specification name,default assignment\n\tDefault,DISK\n\
     'size,% of size,% reads,% random,delay,burst,align,reply\n\t2048,100,67,100,0,1,0,0\n\
     'Access specification name,default assignment\n\tDefault,NONE\n\
     'size,% of size,% reads,% random,delay,burst,align,reply\n\t1,100,0,0,0,1,0,0\n\
     'End access specifications\n",
    "Version 1.1.0 \n'TEST SETUP ===\n'Run Time\n'\thours      minutes    seconds\n\
     \t0 1 0\n'Ramp Up Time (s)\n\t5\n'Queue Depth Cycling\n\
     '\tstart      end        step       step type\n\t1 32 2 EXPONENTIAL\n'Test Type\n\
     \tCYCLE_OUTSTANDING_IOS\n'END test setup\n'ACCESS SPECIFICATIONS ===\n\
     'Access specification name,default assignment\n\tone,NONE\n\
     'size,% of size,% reads,% random,delay,burst,align,reply\n\t4096,100,67,100,0,1,0,0\n\
     'END access specifications\n'MANAGER LIST ===\n'Manager ID, manager name\n\t1,HOST\n\
     'Worker\n\tWorker 1\n'Worker type\n\tDISK\n\
     'Number of outstanding IOs,test connection rate\n\t16,DISABLED,1\n\
     'Disk maximum size,starting sector\n\t2097152,64\n'Assigned access specs\n\tone\n\
     'End assigned access specs\n'Target\n\tC:\n'End worker\n'END manager list\n",
];

fn texts(target: &str) -> Vec<Vec<u8>> {
    let seeds: &[&str] = match target {
        "fio" => &[
            "[global]\nrw=randrw\nrwmixread=70\nbs=4k\niodepth=32\n\n[one]\nbssplit=4k/60:64k/40\n\
             [two]\nstonewall\nrw=write\nbs=1m,64k\nrate_iops=1000\n",
            "[a]\nrw=randread\nrandom_distribution=zipf:1.2\nblockalign=4k\npercentage_random=40\n\
             size=10g\noffset=50%\n",
            "; comment\n[z]\nrw=rw:8\nrandom_distribution=zoned:60/10:30/20:8/30:2/40\n\
             thinktime=100us\nnumjobs=4\nbsrange=1k-64k\n",
            "[global]\nruntime=30\ntime_based\n[a]\nrw=randrw\nrate_iops=700,300\n\
             random_distribution=zoned:60/10:40/,50/50:50/50\nbs=${SIZE}\nnumjobs=$ncpus*2\n\
             offset_increment=25%\n[b]\ninclude more.fio\nrw=read\nsize=20%\noffset=1g\n",
        ],
        "icf" => ICF,
        "profile" => &[
            "random,67%read,8K",
            "sequential,write,1M",
            "database,rate=5000/s",
            "file-server",
            "all",
            "random,30%read,4K:60/64K:40,hot=80%:16G",
        ],
        _ => &[
            "nbd://host:10809/export",
            "nbd+unix:///name?socket=/run/x.sock",
            "nbd://[::1]/a%20b",
            "64KiB",
            "1.5G",
            "raid6",
            "1..512",
            "1,2,4",
            "10%-90%",
            "0-16G",
            "snia",
            "raid5ee",
        ],
    };
    seeds.iter().map(|seed| seed.as_bytes().to_vec()).collect()
}
