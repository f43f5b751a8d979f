//! A volume as a disk of a virtual machine, by vhost-user: a Debian Linux in QEMU writes to it
//! while the controller is killed and restarted (`common::guest`).

mod common;

use common::guest::{FIO, Guest, Verdict, WRITERS};
use common::{Controller, not_possible, until};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

/// The script of the guest. It sends requests to this computer, by lines that start with HOST.
const SCRIPT: &str = r#"
queue=/sys/block/vda/queue
echo "DISK shape $(echo $(cat $queue/logical_block_size $queue/minimum_io_size $queue/optimal_io_size $queue/write_cache))"
echo "DISK name $(cat /sys/block/vda/serial)"
echo "DISK queues $(ls /sys/block/vda/mq | wc -l)"
echo "DISK discards $([ "$(cat $queue/discard_max_bytes)" -gt 0 ] && echo yes)"
echo "DISK read-only $(cat /sys/block/vda/ro) $(cat /sys/block/vdb/ro)"
mkdir /mnt
say mkfs /sbin/mke2fs -q -t ext4 -E lazy_itable_init=0 /dev/vda
does mount mount -t ext4 /dev/vda /mnt
writer a & a=$!; writer b & b=$!
goes_on 2
echo "HOST look"
echo "HOST kill"
goes_on 3
echo "HOST restart"
goes_on 3
touch /run/enough; ended "writer a" $a; ended "writer b" $b
does compare compare
say trim fstrim -v /mnt
does umount umount /mnt
say fsck /sbin/e2fsck -fn /dev/vda
say discard blkdiscard /dev/vda
say fill dd if=/dev/urandom of=/run/random bs=64k count=16
say write dd if=/run/random of=/dev/vda bs=64k seek=7 conv=fsync
echo 3 >/proc/sys/vm/drop_caches
holds() { dd if=/dev/vda bs=64k skip=7 count=16 2>/dev/null | cmp - /run/random && echo "DISK holds data"; }
does read holds
say other dd if=/dev/zero of=/dev/vdb bs=4096 count=1 conv=fsync
echo "KERNEL $(dmesg | grep -c 'I/O error')"
"#;

/// Further steps with `ATTACH_TESTS=all`.
const VERIFY: &str = r#"
patience=600
load --filename=/dev/vda --size=48m --loops=6 --ioengine=libaio --iodepth=8 & fio=$!
goes_on vda 100; echo "HOST kill"
goes_on vda 300; echo "HOST restart"
goes_on vda 300
fio_ended $fio
echo "KERNEL $(dmesg | grep -c 'I/O error')"
"#;

fn disk(controller: &Controller, volume: &str, words: &str) -> [String; 4] {
    let socket = controller.folder.file(&format!("guests/{volume}.sock"));
    [
        "-chardev".to_owned(),
        format!("socket,id={volume},path={socket},reconnect=1"),
        "-device".to_owned(),
        format!("vhost-user-blk-pci,chardev={volume}{words}"),
    ]
}

/// Handles a request of the guest on this computer.
fn help(controller: &mut Controller, line: &str) {
    match line.strip_prefix("HOST ") {
        Some("look") => {
            let hosts = controller.show("data")["hosts"].to_string();
            assert!(hosts.contains("vhost-user") && hosts.contains("qemu-system-x86"), "{hosts}");
            let refused = controller.softroc(&["volume", "delete", "data", "--yes"]).refused();
            assert!(refused.contains("qemu-system-x86"), "{refused}");
        }
        Some("kill") => {
            controller.kill_9();
            controller.start();
        }
        Some("restart") => {
            controller.stop();
            controller.start();
        }
        Some(other) => panic!("the guest asks for {other}"),
        None => {}
    }
}

/// A controller with a socket for each volume, and their folder.
fn controller() -> (Controller, PathBuf) {
    let mut controller = Controller::unstarted("vhost-user");
    let folder = controller.folder.file("guests");
    controller.arguments = ["--vhost-user", &folder, "--shards", "2"].map(str::to_owned).to_vec();
    controller.start();
    (controller, PathBuf::from(folder))
}

/// A machine with two processors and shareable memory.
fn shared_memory(size: &str) -> Vec<String> {
    let memory = format!("memory-backend-memfd,id=memory,size={size},share=on");
    ["-smp", "2", "-object", &memory, "-machine", "memory-backend=memory"]
        .map(str::to_owned)
        .to_vec()
}

#[track_caller]
fn succeeds(verdict: &Verdict, names: &[&str]) {
    for name in names {
        let said = verdict.of("SAID", name).unwrap_or_default();
        assert!(said == "0" || said.starts_with("0 "), "{name}: {said}\n{}", verdict.0);
    }
}

#[test]
fn a_virtual_machine_goes_on_over_the_death_of_the_controller() {
    let Some(mut guest) = Guest::new("a volume as a virtual machine's disk") else { return };
    let (mut controller, folder) = controller();
    let drives = controller.file_drives_of("96M", 4);
    controller.create("data", "raid5", &drives[..3]).ok();
    controller.create("single", "jbod", &drives[3..]).ok();
    guest.machine = shared_memory("768M");
    guest.machine.extend(disk(&controller, "data", ",num-queues=2"));
    guest.machine.extend(disk(&controller, "single", ",num-queues=1"));
    guest.script += WRITERS;
    guest.script += SCRIPT;
    let verdict = guest.run_with(|line| help(&mut controller, line));
    // Logical sector, strip, stripe of three drives; write-back.
    verdict.expect("DISK", "shape", "512 262144 524288 write back");
    for (name, expected) in [
        ("name", "data"),
        ("queues", "2"),
        ("discards", "yes"),
        ("read-only", "0 0"),
        ("holds", "data"),
    ] {
        verdict.expect("DISK", name, expected);
    }
    succeeds(&verdict, &["mkfs", "trim", "fsck", "discard", "fill", "write", "other"]);
    // Two writers, two files each, over a kill and over a restart: no error, no lost data.
    assert_eq!(
        verdict.0.lines().filter(|line| line.starts_with("SAME ")).count(),
        4,
        "{}",
        verdict.0
    );
    assert!(!verdict.0.contains("DIFFERENT ") && !verdict.0.contains("IOERROR "), "{}", verdict.0);
    assert!(verdict.0.contains("KERNEL 0"), "{}", verdict.0);
    // Its sockets are removed with the volumes, and with the controller.
    let socket = |name: &str| folder.join(name);
    controller.softroc(&["volume", "rename", "single", "other"]).ok();
    until("the socket has the new name", || {
        socket("other.sock").exists() && !socket("single.sock").exists()
    });
    controller.softroc(&["volume", "delete", "other", "--yes"]).ok();
    until("the socket is gone", || !socket("other.sock").exists());
    controller.stop();
    assert!(!socket("data.sock").exists());
    assert!(!controller.log().contains("panicked"));
}

#[test]
fn fio_finds_what_it_wrote_over_the_death_of_the_controller() {
    if std::env::var_os("ATTACH_TESTS").is_none_or(|tests| tests != "all") {
        return not_possible("fio in a virtual machine", "ATTACH_TESTS=all asks for it");
    }
    let Some(mut guest) = Guest::with_more("fio in a virtual machine") else { return };
    let (mut controller, _) = controller();
    let drives = controller.file_drives_of("96M", 3);
    controller.create("data", "raid5", &drives).ok();
    guest.machine = shared_memory("1536M");
    guest.machine.extend(disk(&controller, "data", ",num-queues=2"));
    guest.script += FIO;
    guest.script += VERIFY;
    let verdict = guest.run_with(|line| help(&mut controller, line));
    for line in ["BUSY fio 1", "FIO ended 0", "KERNEL 0"] {
        assert!(verdict.0.lines().any(|said| said == line), "{line}\n{}", verdict.0);
    }
    assert!(!controller.log().contains("panicked"));
}

/// Regression: a file blocked the socket path of a renamed volume. After its removal the socket
/// kept its old name until another change.
#[test]
fn a_socket_gets_its_name_when_what_was_in_its_way_is_gone() {
    let (mut controller, folder) = controller();
    let drives = controller.file_drives_of("96M", 1);
    controller.create("data", "jbod", &drives).ok();
    until("there is a socket", || folder.join("data.sock").exists());
    let way = folder.join("other.sock");
    std::fs::write(&way, "somebody's").expect("a file");
    controller.softroc(&["volume", "rename", "data", "other"]).ok();
    until("it is told what is in the way", || controller.log().contains("not available to guests"));
    std::fs::remove_file(&way).expect("it is there");
    until("there is a socket of that name", || UnixStream::connect(&way).is_ok());
    let left: Vec<_> =
        folder.read_dir().expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    assert_eq!(left, [way], "and no other one");
    assert_eq!(
        controller.log().matches("not available to guests").count(),
        1,
        "{}",
        controller.log()
    );
    controller.stop();
}
