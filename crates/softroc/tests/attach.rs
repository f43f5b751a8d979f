//! A volume as a disk of a real Linux kernel in an emulated machine, with a file system that is
//! written to while the controller is killed and restarted (`common::guest`).

mod common;

use common::guest::{Guest, Keep, Verdict, WRITERS};
use common::{Controller, Folder, not_possible};
use std::path::PathBuf;

/// The script of the guest. It prints a line for each checked fact.
const SCRIPT: &str = r#"
state=/run/state
ask() { timeout 90 softroc "$@" --state $state; }
serve() {
    softroc serve --state $state --shards 2 --memory 96M >>/run/serve.log 2>&1 &
    daemon=$!
    within "controller $state" ask volume list
}
over() { kill $1 $daemon; ended "end of the controller" $daemon; }
state() { echo "STATE $1 $(ask attach --list | tr -s ' ' | tail -n 1)"; }
link() { echo "LINK $1 $(readlink /dev/softroc/$2 || echo none)"; }
attached() { within "/dev/softroc/$1" test -e /dev/softroc/$1; }
detached() { within "end of /dev/softroc/$1" test ! -e /dev/softroc/$1; }
story() { # a file system on the disk, written to while the controller dies and comes back
    rm -f /run/enough /run/count.*
    does mount mount -t ext4 /dev/softroc/data /mnt
    writer a & a=$!; writer b & b=$!
    goes_on 2
    over -KILL; serve
    goes_on 2
    over -TERM; serve
    goes_on 1
    state mounted-$1
    touch /run/enough; ended "writer a" $a; ended "writer b" $b
    does compare compare
    say busy-$1 ask detach data
    does umount umount /mnt
    say fsck-$1 /sbin/e2fsck -fn /dev/softroc/data
}
mkdir /mnt
serve
ask drive add $DRIVES >/dev/null
ask volume create data --level raid5 --drives $DRIVES >/dev/null

say unloaded ask attach data
insmod /modules/nbd.ko
say attached ask attach data
say twice ask attach data
say other ask attach data --read-only
link made data
ask volume rename data other >/dev/null; attached other; detached data
link before data; link renamed other
ask volume rename other data >/dev/null; attached data
state idle
say mkfs /sbin/mke2fs -q -t ext4 -E lazy_itable_init=0 /dev/softroc/data
story nbd
say delete ask volume delete data --yes
say detach ask detach /dev/softroc/data
link gone data
say none ask detach data

say ublk-unloaded ask attach data --as ublk
if insmod /modules/ublk_drv.ko 2>/dev/null; then
    say ublk-attached ask attach data --as ublk
    queue=/sys/block/ublkb0/queue
    shape="$(cat $queue/logical_block_size $queue/minimum_io_size $queue/optimal_io_size $queue/fua $queue/write_cache)"
    echo "SHAPE ublk $(echo $shape)"
    say ublk-discard blkdiscard /dev/ublkb0
    say ublk-mkfs /sbin/mke2fs -q -t ext4 -E lazy_itable_init=0 /dev/softroc/data
    story ublk
    say ublk-detach ask detach data
    link ublk-gone data
    say ublk-read-only ask attach data --as ublk --read-only
    say ublk-written dd if=/dev/zero of=/dev/softroc/data bs=4096 count=1 conv=fsync
    say ublk-again ask detach /dev/softroc/data
    echo "UBLK left $(ls /dev | grep -c ublk[bc])"
fi

ask volume set data --attach read-only >/dev/null
attached data
state wished
say written dd if=/dev/zero of=/dev/softroc/data bs=4096 count=1 conv=fsync
say again ask detach data
sleep 2; link stays data
over -TERM; serve; attached data
state started
# A controller that knows nothing of its volume finds the disk, too.
over -KILL; state=/run/other; serve
state orphan
say orphan ask detach /dev/nbd0
say forced ask detach /dev/nbd0 --force
say empty ask attach --list
dmesg | grep 'I/O error'
echo "KERNEL $(dmesg | grep -c 'I/O error, dev')"
grep -c panicked /run/serve.log | sed 's/^/PANICS /'
"#;

/// Boots the guest once, with three empty drives.
fn verdict() -> Option<Verdict> {
    let mut guest = Guest::new("a volume as a disk")?;
    let folder = Folder::new("attach");
    let drives: Vec<PathBuf> =
        (0..3).map(|number| folder.0.join(format!("{number}.img"))).collect();
    for drive in &drives {
        std::fs::File::create(drive)
            .and_then(|file| file.set_len(96 << 20))
            .expect("a sparse file");
    }
    let drives = guest.give(&drives, Keep::Everything).join(" ");
    guest.give_program(env!("CARGO_BIN_EXE_softroc"), &folder);
    guest.script += &format!("DRIVES=\"{drives}\"\n{WRITERS}{SCRIPT}");
    Some(guest.run())
}

/// The same disk by ublk, if the guest's kernel supports it.
fn has_ublk(verdict: &Verdict) -> bool {
    expect(verdict, "ublk-unloaded", 3, &["run 'modprobe ublk_drv' as root"]);
    if verdict.of("SAID", "ublk-attached").is_none() {
        not_possible("a volume as a disk by ublk", "the guest's kernel has no ublk_drv");
        return false;
    }
    expect(
        verdict,
        "ublk-attached",
        0,
        &["device /dev/ublkb0", "/dev/softroc/data", "/dev/disk/by-id/softroc-"],
    );
    // Strip and stripe of three drives; with a flushed cache, and with write-through.
    verdict.expect("SHAPE", "ublk", "512 262144 524288 1 write back");
    for name in
        ["ublk-discard", "ublk-mkfs", "fsck-ublk", "ublk-detach", "ublk-read-only", "ublk-again"]
    {
        expect(verdict, name, 0, &[]);
    }
    let mounted = verdict.of("STATE", "mounted-ublk").unwrap_or_default();
    assert_eq!(
        mounted.trim(),
        "/dev/ublkb0 data connected read-write /dev/softroc/data mounted at /mnt"
    );
    expect(
        verdict,
        "busy-ublk",
        3,
        &["/dev/ublkb0 is in use: mounted at /mnt; first run 'umount /mnt'"],
    );
    expect(verdict, "ublk-written", 1, &["ermitted"]);
    verdict.expect("LINK", "ublk-gone", "none");
    verdict.expect("UBLK", "left", "0");
    true
}

/// The output of a command contains all of these, and its exit code matches.
#[track_caller]
fn expect(verdict: &Verdict, name: &str, code: u8, parts: &[&str]) {
    let said =
        verdict.of("SAID", name).unwrap_or_else(|| panic!("nothing of {name}:\n{}", verdict.0));
    let as_expected = said.starts_with(&format!("{code} ")) || said == code.to_string();
    assert!(as_expected, "{name}: {said}\n{}", verdict.0);
    for part in parts {
        assert!(said.contains(part), "{name}: {said}, without {part}\n{}", verdict.0);
    }
}

#[test]
fn a_mounted_file_system_survives_the_death_of_the_controller() {
    let Some(verdict) = verdict() else { return };
    expect(&verdict, "unloaded", 3, &["run 'modprobe nbd' as root"]);
    expect(
        &verdict,
        "attached",
        0,
        &["device /dev/nbd0", "/dev/softroc/data", "/dev/disk/by-id/softroc-"],
    );
    expect(&verdict, "twice", 0, &["'data' is attached as /dev/nbd0 already"]);
    expect(&verdict, "other", 3, &["'data' is attached as /dev/nbd0 already, read-write"]);
    for (name, target) in [
        ("made", "/dev/nbd0"),
        ("before", "none"),
        ("renamed", "/dev/nbd0"),
        ("gone", "none"),
        ("stays", "none"),
    ] {
        verdict.expect("LINK", name, target);
    }
    let state = |name: &str| verdict.of("STATE", name).unwrap_or_default().trim().to_owned();
    assert_eq!(state("idle"), "/dev/nbd0 data connected read-write /dev/softroc/data -");
    assert_eq!(
        state("mounted-nbd"),
        "/dev/nbd0 data connected read-write /dev/softroc/data mounted at /mnt"
    );
    assert_eq!(state("wished"), "/dev/nbd0 data connected read-only /dev/softroc/data -");
    assert_eq!(state("started"), "/dev/nbd0 data connected read-only /dev/softroc/data -");
    assert!(
        state("orphan").starts_with("/dev/nbd0 ")
            && state("orphan").contains(" waiting read-only ")
    );
    expect(&verdict, "mkfs", 0, &[]);
    // Two writers, two files each, over a kill and over a restart: no error, no lost data.
    let stories = if has_ublk(&verdict) { 2 } else { 1 };
    assert_eq!(
        verdict.0.lines().filter(|line| line.starts_with("SAME ")).count(),
        4 * stories,
        "{}",
        verdict.0
    );
    assert!(!verdict.0.contains("DIFFERENT ") && !verdict.0.contains("IOERROR "), "{}", verdict.0);
    expect(&verdict, "delete", 3, &["'data' is used by /dev/nbd0"]);
    expect(
        &verdict,
        "busy-nbd",
        3,
        &["/dev/nbd0 is in use: mounted at /mnt; first run 'umount /mnt'"],
    );
    expect(&verdict, "fsck-nbd", 0, &[]);
    expect(&verdict, "detach", 0, &["Done."]);
    expect(&verdict, "none", 4, &["'data' is not attached"]);
    expect(&verdict, "written", 1, &["ermitted"]);
    expect(&verdict, "again", 0, &["softroc volume set data --attach off"]);
    expect(&verdict, "orphan", 3, &["softroc detach /dev/nbd0 --force"]);
    expect(&verdict, "forced", 0, &["Done."]);
    expect(&verdict, "empty", 0, &["No volume is attached"]);
    assert!(verdict.0.contains("KERNEL 0") && verdict.0.contains("PANICS 0"), "{}", verdict.0);
}

#[test]
fn a_machine_that_lets_nobody_make_disks_says_what_to_do() {
    let controller = Controller::new("attach");
    controller.volume("data", "raid1", 2);
    let listed = controller.softroc(&["attach", "--list"]).ok();
    assert!(listed.contains("No volume is attached"), "{listed}");
    let unknown = controller.softroc(&["attach", "nothing"]).refused();
    assert!(unknown.contains("there is no volume 'nothing'"), "{unknown}");
    let none = controller.softroc(&["detach", "data"]).refused();
    assert!(none.contains("'data' is not attached"), "{none}");
    let none = controller.softroc(&["attach", "data", "--as", "ublk"]);
    let says_what_to_do = ["modprobe ublk_drv", "sudo softroc serve", "omit '--as ublk'"];
    assert!(says_what_to_do.iter().any(|what| none.stderr.contains(what)), "{}", none.stderr);
    // Tests a kernel without the module, or a container without the permission; if both exist, the
    // guest tests it.
    let attached = controller.softroc(&["attach", "data"]);
    match attached.code {
        0 => drop(controller.softroc(&["detach", "data"]).ok()),
        code => {
            assert_eq!(code, 3, "{}", attached.stderr);
            let says_what_to_do = ["modprobe nbd", "sudo softroc serve", "AF_NETLINK"];
            assert!(
                says_what_to_do.iter().any(|what| attached.stderr.contains(what)),
                "{}",
                attached.stderr
            );
        }
    }
}
