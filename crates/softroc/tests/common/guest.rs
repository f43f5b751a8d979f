//! An emulated machine with a Debian Linux (`scripts/md-guest` creates its kernel and initial file
//! system), independent of this computer's kernel: it has drives, runs a script, and its output is
//! checked.

use super::{Folder, have, not_installed, run};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The time limit of a guest on a busy computer. Tests draw no conclusion from the time.
const TIMEOUT_S: u32 = 540;
/// The time limit of guests with more to do.
const LONG_TIMEOUT_S: u32 = 3600;

/// Its memory, in MiB: normal, and with more programs.
const MEMORY: [&str; 2] = ["768", "1536"];

/// The name of a drive in its script: `drive N` is the Nth drive passed.
const DRIVE: &str = "drive() { echo /dev/$(ls /sys/class/scsi_device/0:0:$1:0/device/block); }\n";

/// Functions for waiting in its script. All waits have a limit: after a minute they print `LATE`,
/// and the script continues, so that the output shows the failing step. Later waits are then short.
///
/// `within NAME COMMAND...` waits until a command succeeds, `ended NAME PID` for a process. `does
/// NAME COMMAND...` runs a command with a limit of two minutes; `say` does so as well, and prints
/// how it ended.
const WAITS: &str = r#"
patience=60
within() {
    local what=$1 up rest end; shift
    read up rest </proc/uptime; end=$((${up%%.*} + patience))
    until "$@" >/dev/null 2>&1; do
        read up rest </proc/uptime
        [ ${up%%.*} -lt $end ] || { echo "LATE $what"; patience=15; return 99; }
        sleep 0.2
    done
}
is_over() { local pid program state rest; ! read -r pid program state rest </proc/$1/stat || [ $state = Z ]; }
ended() { within "$1" is_over $2 && wait $2; }
does() {
    local what=$1 code most=$patience; shift; patience=$((2 * patience))
    "$@" & ended "$what" $!; code=$?
    [ $patience -lt $most ] || patience=$most
    return $code
}
say() { local name=$1 code; shift; does $name "$@" >/run/said.$name 2>&1; code=$?; echo "SAID $name $code $(echo $(cat /run/said.$name))"; }
"#;

/// For scripts that write files to `/mnt` during an event: `writer` writes files until
/// `/run/enough` exists, `goes_on` waits for progress of all writers, `compare` checks the files.
pub const WRITERS: &str = r#"
count() { c=$(cat /run/count.$1 2>/dev/null); echo ${c:-0}; }
writer() { # each writes files of its own, each more than once, and remembers what they hold
    i=0
    while [ ! -e /run/enough ]; do
        i=$((i+1)); f=$1.$((i%2))
        seq $((i*1000)) $((i*1000+30000)) >/run/part.$1
        dd if=/run/part.$1 of=/mnt/$f bs=64k conv=fsync 2>/dev/null || echo "IOERROR $f"
        sha256sum </run/part.$1 >/run/sum.$f
        echo $i >/run/count.$1
    done
}
is_at() { read -r c </run/count.$1 && [ $c -ge $2 ]; }
goes_on() { # every writer gets so much further
    for w in a b; do
        within "writer $w" is_at $w $(($(count $w)+$1))
    done
}
compare() { # what the writers remember with what is there
    sync; echo 3 >/proc/sys/vm/drop_caches
    for f in /mnt/*.*; do
        [ "$(sha256sum <$f)" = "$(cat /run/sum.$(basename $f))" ] && echo "SAME $(basename $f)" || echo "DIFFERENT $f"
    done
}
"#;

/// For scripts that run fio during an event: `load WHERE OPTION...` writes in random order, reads
/// each block and verifies its checksum; `goes_on DISK COUNT` waits until that many more writes
/// have completed.
#[allow(dead_code, reason = "long tests do")]
pub const FIO: &str = r#"
load() {
    /sbin/fio --name=verified --eta=never "$@" --rw=randwrite --bsrange=4k-64k --direct=1 --thread --group_reporting --output=/run/fio \
        --verify=crc32c --verify_backlog=32 --verify_fatal=1
}
written() { set -- $(cat /sys/block/$1/stat); echo $5; }
has_written() { [ $(written $1) -ge $2 ]; }
goes_on() { within "fio on $1" has_written $1 $(($(written $1) + $2)); }
fio_ended() { # how fio did, which has to be there still
    is_over $1; echo "BUSY fio $?"
    ended "fio" $1; echo "FIO ended $?"
    grep -i 'verify:\|err=' /run/fio | head -n 5
}
"#;

/// The machine, its drives, and its script.
pub struct Guest {
    parts: PathBuf,
    /// Whether it has the parts for long tests.
    has_more: bool,
    drives: Vec<(PathBuf, Keep)>,
    /// Additional files of this computer, and their destinations.
    files: Vec<(PathBuf, String)>,
    /// Additional arguments of QEMU.
    pub machine: Vec<String>,
    /// Its script.
    pub script: String,
}

/// Whether the guest's writes to a drive persist.
#[derive(Clone, Copy, PartialEq)]
pub enum Keep {
    Nothing,
    Everything,
}

impl Guest {
    /// `None`, with a printed reason: no emulator or kernel.
    pub fn new(what: &str) -> Option<Guest> {
        let parts = std::env::var_os("MD_GUEST").map_or_else(
            || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/md-guest"),
            PathBuf::from,
        );
        for part in ["vmlinuz", "initrd.gz"] {
            if !parts.join(part).exists() {
                not_installed(&format!("{} (for {what})", parts.join(part).display()));
                return None;
            }
        }
        let programs = ["qemu-system-x86_64", "cpio", "gzip", "sha256sum"];
        let is_there = programs.iter().filter(|program| !have(program)).count() == 0;
        is_there.then(|| Guest {
            parts,
            has_more: false,
            drives: Vec::new(),
            files: Vec::new(),
            machine: Vec::new(),
            script: format!("{DRIVE}{WAITS}"),
        })
    }

    /// The same with fio, XFS and LVM, whose modules are loaded first.
    #[allow(dead_code, reason = "long tests do")]
    pub fn with_more(what: &str) -> Option<Guest> {
        let mut guest = Guest::new(what)?;
        if !guest.parts.join("more.gz").exists() {
            not_installed("the guest's programs for long tests");
            return None;
        }
        guest.has_more = true;
        guest.script +=
            "while read -r module; do insmod /modules/$module; done </etc/modules.more\n";
        Some(guest)
    }

    /// Attaches drives. Returns their names in the script.
    pub fn give(&mut self, drives: &[PathBuf], keep: Keep) -> Vec<String> {
        let first = self.drives.len();
        self.drives.extend(drives.iter().map(|drive| (drive.clone(), keep)));
        (first..self.drives.len()).map(|number| format!("$(drive {number})")).collect()
    }

    /// Adds a program of this computer, stripped, with its libraries.
    pub fn give_program(&mut self, program: &str, folder: &Folder) {
        let name = Path::new(program).file_name().expect("a program has a name").to_string_lossy();
        let stripped = folder.0.join(&*name);
        run("strip", &["-o", stripped.to_str().expect("paths are text"), program]);
        self.files.push((stripped, format!("bin/{name}")));
        let libraries = run("ldd", &[program]);
        let paths = libraries.split_whitespace().filter(|word| word.starts_with('/'));
        self.files.extend(
            paths.map(|path| (PathBuf::from(path), path.trim_start_matches('/').to_owned())),
        );
    }

    /// The additional files, as an archive that the kernel unpacks.
    fn pack(&self, folder: &Folder) -> PathBuf {
        let root = folder.0.join("root");
        let copy = |from: &Path, to: &str| {
            let to = root.join(to);
            std::fs::create_dir_all(to.parent().expect("it is in a folder")).expect("a folder");
            std::fs::copy(from, &to).expect("a copy");
        };
        std::fs::create_dir_all(&root).expect("a folder");
        std::fs::write(root.join("script.sh"), &self.script).expect("a file");
        self.files.iter().for_each(|(from, to)| copy(from, to));
        let pack = "cd \"$1\" && shift && (find . | cpio -o -H newc 2>/dev/null | gzip -1) \
            | cat \"$@\" - >../initrd.gz";
        let root = folder.file("root");
        let parts =
            ["initrd.gz", "more.gz"].map(|part| self.parts.join(part).display().to_string());
        let [base, more] = &parts;
        let mut words = vec!["-c", pack, "sh", &root, base];
        words.extend(self.has_more.then_some(more.as_str()));
        run("sh", &words);
        folder.0.join("initrd.gz")
    }

    /// Boots it, waits until it is off, and returns its output.
    pub fn run(self) -> Verdict {
        self.run_with(|_| {})
    }

    /// The same; `each` receives every line at once.
    pub fn run_with(self, mut each: impl FnMut(&str)) -> Verdict {
        let folder = Folder::new("guest");
        let initrd = self.pack(&folder);
        let mut command = Command::new("timeout");
        let timeout_s = if self.has_more { LONG_TIMEOUT_S } else { TIMEOUT_S };
        command.arg(timeout_s.to_string()).arg("qemu-system-x86_64");
        // Always emulated: results must not depend on hardware acceleration.
        command.args([
            "-accel",
            "tcg",
            "-cpu",
            "max",
            "-m",
            MEMORY[usize::from(self.has_more)],
            "-nographic",
            "-no-reboot",
            "-nodefaults",
        ]);
        command.args(["-serial", "stdio", "-append", "console=ttyS0 panic=-1 quiet", "-kernel"]);
        command.arg(self.parts.join("vmlinuz")).arg("-initrd").arg(initrd);
        command.args(["-device", "virtio-scsi-pci,id=scsi"]);
        for (number, (path, keep)) in self.drives.iter().enumerate() {
            let snapshot = if *keep == Keep::Nothing { "on" } else { "off" };
            let path = path.to_str().expect("paths are text");
            command
                .arg("-drive")
                .arg(format!("file={path},format=raw,if=none,id=d{number},snapshot={snapshot}"));
            command
                .arg("-device")
                .arg(format!("scsi-hd,bus=scsi.0,scsi-id={number},drive=d{number}"));
        }
        command
            .args(&self.machine)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("the guest starts");
        let mut lines = BufReader::new(child.stdout.take().expect("it is piped"));
        let (mut said, mut line) = (String::new(), Vec::new());
        while lines.read_until(b'\n', &mut line).expect("the guest is heard") > 0 {
            let text = String::from_utf8_lossy(&line).replace('\r', "");
            each(text.trim_end());
            said += &text;
            line.clear();
        }
        let mut complaint = String::new();
        child
            .stderr
            .take()
            .expect("it is piped")
            .read_to_string(&mut complaint)
            .expect("the guest is heard");
        child.wait().expect("the guest ends");
        assert!(said.contains("GUEST-DONE"), "the guest did not end well: {complaint}\n{said}");
        Verdict(said)
    }
}

/// The output of the guest.
pub struct Verdict(pub String);

impl Verdict {
    /// The rest of the line with that prefix.
    pub fn of(&self, what: &str, name: &str) -> Option<&str> {
        let start = format!("{what} {name} ");
        self.0.lines().find_map(|line| line.strip_prefix(start.as_str()))
    }

    #[track_caller]
    pub fn expect(&self, what: &str, name: &str, expected: &str) {
        assert_eq!(
            self.of(what, name),
            Some(expected),
            "{what} of {name}; the guest said:\n{}",
            self.0
        );
    }
}
