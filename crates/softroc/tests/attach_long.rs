//! Uses of a disk of this computer, in an emulated machine with a real Linux kernel
//! (`common::guest`): XFS; fio that verifies while the controller is killed and restarted and a
//! drive is pulled and replaced; Linux md and LVM; a reboot. By NBD and by ublk. The cost of a
//! request is measured and printed.
//!
//! Runs with `ATTACH_TESTS=all`; it takes many minutes.

mod common;

use common::guest::{FIO, Guest, Keep, Verdict};
use common::{Folder, not_possible};
use std::path::PathBuf;

/// The start of the script for both boots of the machine. Persistent files are on the last drive.
const BEGIN: &str = r#"
ask() { timeout 90 softroc "$@" --state /state/softroc; }
serve() {
    softroc serve --state /state/softroc --shards 2 --memory 96M >>/state/serve.log 2>&1 &
    daemon=$!
    within "controller" ask volume list
}
over() { kill $1 $daemon; ended "end of the controller" $daemon; }
attached() { within "/dev/softroc/data" test -e /dev/softroc/data; }
mkdir /mnt /state
"#;

const FIRST: &str = r#"
insmod /modules/nbd.ko; insmod /modules/ublk_drv.ko 2>/dev/null
/sbin/mke2fs -q -t ext4 $STATE; mount -t ext4 $STATE /state
serve
ask drive add $DRIVES $SPARES >/dev/null
ask volume create data --level raid5 --drives $DRIVES >/dev/null

optimal() { ask volume list | grep -q '^ *data .*optimal'; }
trouble() { # while fio runs: a kill, a restart, a drive that is pulled and replaced
    patience=600
    goes_on $2 100
    over -KILL; serve; goes_on $2 100
    over -TERM; serve; goes_on $2 100
    echo 1 >/sys/block/$(basename $3)/device/delete
    goes_on $2 50
    say replaced-$1 ask drive replace data:$4 --with $5
    fio_ended $fio
    within "rebuilt" optimal && echo "OPTIMAL $1 yes"
    patience=60
}
stacked() { # Linux md, then LVM, on the disk
    dd if=/dev/urandom of=/run/random bs=64k count=256 2>/dev/null
    say md-$1 mdadm --create /dev/md9 --level=1 --raid-devices=2 --metadata=1.2 --force --run /dev/softroc/data missing
    say md-write-$1 dd if=/run/random of=/dev/md9 bs=64k seek=100 conv=fsync
    say md-busy-$1 ask detach data
    echo 3 >/proc/sys/vm/drop_caches
    dd if=/dev/md9 bs=64k skip=100 count=256 2>/dev/null | cmp - /run/random && echo "SAME md-$1"
    say md-stop-$1 mdadm --stop /dev/md9
    mdadm --zero-superblock /dev/softroc/data
    lvm() { DM_DISABLE_UDEV=1 /sbin/lvm "$@" --devices $(readlink /dev/softroc/data) 2>>/run/lvm.log; }
    say pv-$1 lvm pvcreate -y -ff /dev/softroc/data
    say vg-$1 lvm vgcreate group /dev/softroc/data
    say lv-$1 lvm lvcreate -y -Wn -Zn -n one -L 100M group
    say lv-write-$1 dd if=/run/random of=/dev/mapper/group-one bs=64k seek=300 conv=fsync
    say lv-busy-$1 ask detach data
    echo 3 >/proc/sys/vm/drop_caches
    dd if=/dev/mapper/group-one bs=64k skip=300 count=256 2>/dev/null | cmp - /run/random && echo "SAME lv-$1"
    say lv-stop-$1 lvm vgremove -y -ff group
    cat /run/lvm.log | head -n 5
}
by() { # WAY DISK PULLED SLOT REPLACEMENT
    say attached-$1 ask attach data --as $1
    attached
    stacked $1
    say mkfs-$1 /sbin/mkfs.xfs -f -q /dev/softroc/data
    say mount-$1 mount -t xfs /dev/softroc/data /mnt
    load --directory=/mnt --size=30m --loops=3 --ioengine=psync --numjobs=2 & fio=$!
    trouble "$@"
    say trim-$1 fstrim -v /mnt
    say umount-$1 umount /mnt
    say repair-$1 /sbin/xfs_repair -n /dev/softroc/data
    say detached-$1 ask detach data
}
set -- $DRIVES; first=$1; second=$2
set -- $SPARES
by nbd nbd0 $first 0 $1
by ublk ublkb0 $second 1 $2
# Something that is there after a reboot.
ask volume set data --attach on >/dev/null; attached
say mkfs-last /sbin/mkfs.xfs -f -q /dev/softroc/data
say mount-last mount -t xfs /dev/softroc/data /mnt
seq 1 300000 >/mnt/numbers; sha256sum </mnt/numbers >/state/sum
say umount-last umount /mnt
over -TERM
grep -c panicked /state/serve.log | sed 's/^/PANICS first /'
say umount-state umount /state
"#;

const SECOND: &str = r#"
insmod /modules/nbd.ko
mount -t ext4 $STATE /state
serve
attached
echo "/dev/softroc/data /mnt xfs _netdev,nofail,x-systemd.requires=softroc-attach@data.service 0 2" >/etc/fstab
say mounted /sbin/mount -a
[ "$(sha256sum </mnt/numbers)" = "$(cat /state/sum)" ] && echo "SAME after-reboot"
echo "STATE reboot $(ask attach --list | tr -s ' ' | tail -n 1)"
say umount umount /mnt
over -TERM
grep -c panicked /state/serve.log | sed 's/^/PANICS second /'
umount /state
"#;

/// ext4 under fio while RAID 5 of four drives becomes RAID 6 of six, with a kill and a pulled
/// drive. Then the file system grows, and Linux md reads the remaining drives by DDF.
const GROWS: &str = r#"
insmod /modules/nbd.ko; insmod /modules/ublk_drv.ko 2>/dev/null
/sbin/mke2fs -q -t ext4 $STATE; mount -t ext4 $STATE /state
serve
ask drive add $DRIVES $SPARES >/dev/null
ask volume create data --level raid5 --write-mode write-through --drives $DRIVES >/dev/null
loads() { # until there is /run/enough
    rounds=0
    while [ ! -e /run/enough ]; do
        load --directory=/mnt --size=16m --ioengine=psync --numjobs=2 || { echo "FIO failed $?"; cat /run/fio; break; }
        rounds=$((rounds+1))
    done
    echo "FIO rounds $rounds"
}
shown() { ask volume show data >/run/shown 2>&1; }
has_moved() { shown && grep -q ' [1-9][0-9]* % on the way' /run/shown; }
is_moving() { shown && grep -q 'on the way' /run/shown; }
has_come() { shown && ! grep -q 'on the way' /run/shown; }
has_grown() { [ $(cat /sys/block/nbd0/size) -gt $before ]; }
task() { ask task list --json | tr '{,' '\n\n' | sed -n 's/.*"task": *\([0-9]*\).*/\1/p' | head -n 1; }

say attached ask attach data
attached
say mkfs /sbin/mke2fs -q -t ext4 -E lazy_itable_init=0 /dev/softroc/data
say mount mount -t ext4 /dev/softroc/data /mnt
before=$(cat /sys/block/nbd0/size)
loads & fio=$!
patience=900
goes_on nbd0 100
say migrate ask volume migrate data --level raid6 --add $SPARES
say slow ask task set $(task) --limit 4M
within "a part moved" has_moved
over -KILL; serve; goes_on nbd0 50
is_moving && echo "MOVING after-kill yes"
set -- $DRIVES; first=$1; shift
echo 1 >/sys/block/$(basename $first)/device/delete
goes_on nbd0 50
is_moving && echo "MOVING after-pull yes"
say fast ask task set $(task) --limit 0
within "the other layout" has_come
goes_on nbd0 20
within "a larger disk" has_grown
echo "SECTORS disk $before $(cat /sys/block/nbd0/size)"
say resize resize2fs /dev/softroc/data
df -k /mnt | tail -n 1 | sed 's/^/DF /'
goes_on nbd0 50
touch /run/enough; ended "fio" $fio
say umount umount /mnt
say fsck /sbin/e2fsck -fn /dev/softroc/data
echo "HASH softroc $(sha256sum </dev/softroc/data)"
cat /run/shown
say detached ask detach data
over -TERM
grep -c panicked /state/serve.log | sed 's/^/PANICS grows /'
echo 1 >/sys/module/md_mod/parameters/start_ro
say assemble mdadm --assemble /dev/md/c --metadata=ddf "$@" $SPARES
say incremental mdadm --incremental --run /dev/md/c
for b in /sys/block/md*; do
    [ $(cat $b/size) = 0 ] && continue
    echo "VOLUME md $(cat $b/md/level) $(cat $b/md/layout) $(cat $b/md/raid_disks) $(cat $b/size) $(cat $b/md/degraded)"
    echo "HASH md $(sha256sum </dev/$(basename $b))"
    mdadm --stop /dev/$(basename $b)
done
umount /state
"#;

/// The controller's processor time per request. The guest's clock counts instructions, one
/// nanosecond each.
const COST: &str = r#"
insmod /modules/nbd.ko; insmod /modules/ublk_drv.ko 2>/dev/null
mount -t tmpfs none /state
serve
ask drive add $DRIVES >/dev/null
ask volume create data --level raid0 --drives $DRIVES >/dev/null
used() { cat /proc/$daemon/task/*/schedstat | (sum=0; while read ns rest; do sum=$((sum+ns)); done; echo $sum); }
# NAME RW DEPTH: 2,048 requests of 4 KiB
cost() {
    before=$(used)
    /sbin/fio --name=cost --eta=never --filename=/dev/softroc/data --rw=$2 --bs=4k --size=64m --io_size=8m --direct=1 --ioengine=libaio --iodepth=$3 \
        --allow_mounted_write=1 --output=/run/fio --thread || cat /run/fio
    echo "COST $1-$2-$3 $((($(used) - before) / 2048))"
}
before=$(used); sleep 10; echo "COST idle-second $((($(used) - before) / 10))"
for way in nbd ublk; do
    say cost-$way ask attach data --as $way
    attached
    # What is written first is written elsewhere, too.
    /sbin/fio --name=fill --eta=never --filename=/dev/softroc/data --rw=write --bs=1m --size=64m --direct=1 --output=/run/fill
    for depth in 1 16; do
        cost $way randread $depth
        cost $way randwrite $depth
    done
    say cost-detach-$way ask detach data
done
over -TERM
"#;

fn is_long() -> bool {
    let is_long = std::env::var_os("ATTACH_TESTS").is_some_and(|tests| tests == "all");
    if !is_long {
        not_possible(
            "XFS, fio, md, LVM and a reboot on a disk of this machine",
            "ATTACH_TESTS=all asks for them",
        );
    }
    is_long
}

/// Empty drives of the given sizes in MiB.
fn drives(folder: &Folder, sizes_mib: &[u64]) -> Vec<PathBuf> {
    let drive = |(number, size): (usize, &u64)| {
        let path = folder.0.join(format!("{number}.img"));
        std::fs::File::create(&path)
            .and_then(|file| file.set_len(size << 20))
            .expect("a sparse file");
        path
    };
    sizes_mib.iter().enumerate().map(drive).collect()
}

/// Boots the machine with the volume's drives, two more, and the one with persistent files; and
/// with these programs.
fn boot(
    folder: &Folder,
    drives: &[PathBuf],
    (members, script): (usize, &str),
    programs: &[&str],
) -> Option<Verdict> {
    let mut guest = Guest::with_more("tests of a disk of this computer")?;
    let names = guest.give(drives, Keep::Everything);
    guest.give_program(env!("CARGO_BIN_EXE_softroc"), folder);
    programs.iter().for_each(|program| guest.give_program(program, folder));
    let (volume, more) = names.split_at(members);
    let (volume, spares, state) = (volume.join(" "), more[..2].join(" "), &more[2]);
    guest.script += &format!(
        "DRIVES=\"{volume}\"\nSPARES=\"{spares}\"\nSTATE=\"{state}\"\n{FIO}{BEGIN}{script}"
    );
    // It takes long: print the progress.
    Some(guest.run_with(|line| println!("{line}")))
}

#[track_caller]
fn succeeds(verdict: &Verdict, names: &[&str]) {
    for name in names {
        let said = verdict.of("SAID", name).unwrap_or_default();
        assert!(said == "0" || said.starts_with("0 "), "{name}: {said}\n{}", verdict.0);
    }
}

#[test]
fn what_administrators_put_on_a_disk_bears_kills_pulled_drives_and_a_reboot() {
    if !is_long() {
        return;
    }
    let folder = Folder::new("attach-long");
    let drives = drives(&folder, &[256, 256, 256, 256, 256, 128]);
    let Some(verdict) = boot(&folder, &drives, (3, FIRST), &[]) else { return };
    for way in ["nbd", "ublk"] {
        let of =
            |what: &[&str]| what.iter().map(|what| format!("{what}-{way}")).collect::<Vec<_>>();
        let good = of(&[
            "attached", "md", "md-write", "md-stop", "pv", "vg", "lv", "lv-write", "lv-stop",
            "mkfs", "mount", "replaced", "trim", "umount", "repair", "detached",
        ]);
        succeeds(&verdict, &good.iter().map(String::as_str).collect::<Vec<_>>());
        for (busy, holder) in [("md-busy", "part of /dev/md9"), ("lv-busy", "part of /dev/dm-")] {
            let said = verdict.of("SAID", &format!("{busy}-{way}")).unwrap_or_default();
            assert!(
                said.starts_with("3 ") && said.contains(holder),
                "{busy} {said}\n{}",
                verdict.0
            );
        }
        verdict.expect("OPTIMAL", way, "yes");
        for same in ["md", "lv"] {
            assert!(
                verdict.0.contains(&format!("SAME {same}-{way}\n")),
                "{same} {way}\n{}",
                verdict.0
            );
        }
    }
    // Fio ran until after the replacement of the drive, and verified each block.
    for line in ["BUSY fio 1", "FIO ended 0"] {
        assert_eq!(
            verdict.0.lines().filter(|said| *said == line).count(),
            2,
            "{line}\n{}",
            verdict.0
        );
    }
    succeeds(&verdict, &["mkfs-last", "mount-last", "umount-last", "umount-state"]);
    verdict.expect("PANICS", "first", "0");
    // The second boot of the machine.
    let verdict = boot(&folder, &drives, (3, SECOND), &[]).expect("it was booted before");
    succeeds(&verdict, &["mounted", "umount"]);
    assert!(verdict.0.contains("SAME after-reboot"), "{}", verdict.0);
    verdict.expect("PANICS", "second", "0");
    let state = verdict.of("STATE", "reboot").unwrap_or_default();
    assert!(
        state.contains("data connected read-write /dev/softroc/data mounted at /mnt"),
        "{state}"
    );
}

#[test]
fn a_file_system_grows_with_its_volume_and_linux_md_reads_what_comes_of_it() {
    const RESIZE: &str = "/sbin/resize2fs";
    if !is_long() {
        return;
    }
    if !std::path::Path::new(RESIZE).exists() {
        return common::not_installed("e2fsprogs");
    }
    let folder = Folder::new("attach-grows");
    let drives = drives(&folder, &[128, 128, 128, 128, 128, 128, 128]);
    let Some(verdict) = boot(&folder, &drives, (4, GROWS), &[RESIZE]) else { return };
    succeeds(
        &verdict,
        &[
            "attached", "mkfs", "mount", "migrate", "slow", "fast", "resize", "umount", "fsck",
            "detached", "assemble",
        ],
    );
    for when in ["after-kill", "after-pull"] {
        verdict.expect("MOVING", when, "yes");
    }
    assert!(!verdict.0.contains("FIO failed") && !verdict.0.contains("LATE "), "{}", verdict.0);
    // Three consecutive strips of data, then four.
    let sectors: Vec<u64> =
        verdict.of("SECTORS", "disk").unwrap_or_default().split(' ').flat_map(str::parse).collect();
    let [before, after] = sectors[..] else { panic!("{}", verdict.0) };
    assert!(after >= before / 3 * 4, "{before} sectors, and then {after}");
    let blocks = verdict.0.lines().find_map(|line| line.strip_prefix("DF ")).unwrap_or_default();
    let blocks: u64 =
        blocks.split_whitespace().nth(1).and_then(|count| count.parse().ok()).unwrap_or(0);
    assert!(blocks > before / 2, "{blocks} KiB in the file system: it has grown\n{}", verdict.0);
    verdict.expect("PANICS", "grows", "0");
    // The pulled drive is missing.
    let volume = verdict.of("VOLUME", "md").unwrap_or_default();
    assert!(volume.starts_with("raid6 10 6 ") && volume.ends_with(" 1"), "{volume}\n{}", verdict.0);
    assert_eq!(verdict.of("HASH", "md"), verdict.of("HASH", "softroc"), "{}", verdict.0);
    assert!(verdict.of("HASH", "md").is_some(), "{}", verdict.0);
}

#[test]
fn what_a_request_costs_the_controller_is_counted() {
    if !is_long() {
        return;
    }
    let folder = Folder::new("attach-cost");
    let drives = drives(&folder, &[64, 64, 64, 1, 1, 1]);
    let Some(mut guest) = Guest::with_more("what a request to a disk costs") else { return };
    let names = guest.give(&drives, Keep::Nothing);
    guest.give_program(env!("CARGO_BIN_EXE_softroc"), &folder);
    guest.machine = ["-icount", "shift=0,sleep=off"].map(str::to_owned).to_vec();
    guest.script += &format!("DRIVES=\"{}\"\n{BEGIN}{COST}", names[..3].join(" "));
    let verdict = guest.run();
    for line in verdict.0.lines().filter(|line| line.starts_with("COST ")) {
        println!("{line}");
    }
    let cost = |what: &str| verdict.of("COST", what).and_then(|count| count.parse::<u64>().ok());
    for way in ["nbd", "ublk"] {
        succeeds(&verdict, &[&format!("cost-{way}"), &format!("cost-detach-{way}")]);
        // Idle volumes cost nothing.
        for work in ["randread-1", "randread-16", "randwrite-1", "randwrite-16"] {
            let count = cost(&format!("{way}-{work}"));
            assert!(
                count.is_some_and(|count| count > 1_000),
                "{way} {work}: {count:?}\n{}",
                verdict.0
            );
        }
    }
}
