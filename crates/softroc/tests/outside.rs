//! External programs test the NBD export: libnbd's tools, qemu's, fio, a file system.

mod common;

use common::mounted::{Mounted, can_mount};
use common::{Controller, have, not_possible, pattern_file, run};

/// Levels with their drives; whether they survive the loss of one.
const LEVELS: [(&str, usize, bool); 3] =
    [("raid0", 3, false), ("raid1", 2, true), ("raid5", 4, true)];

/// Runs `judge` on a volume of every level, and again with a failed drive if the level survives
/// that.
fn on_every_level(name: &str, judge: impl Fn(&Controller, &str)) {
    let controller = Controller::new(name);
    for (level, drives, survives) in LEVELS {
        let folder = controller.folder.file(level);
        std::fs::create_dir_all(&folder).expect("a folder");
        let paths: Vec<String> = (0..drives).map(|i| format!("{folder}/d{i}.img")).collect();
        let mut add = vec!["drive", "add", "--create", common::DRIVE];
        add.extend(paths.iter().map(String::as_str));
        controller.softroc(&add).ok();
        controller.create(level, level, &paths).ok();
        judge(&controller, level);
        if survives {
            controller.softroc(&["drive", "fail", &format!("{level}:1")]).ok();
            assert_eq!(controller.show(level)["state"], "degraded");
            judge(&controller, level);
        }
        controller.softroc(&["volume", "delete", level, "--yes"]).ok();
        std::fs::remove_dir_all(&folder).expect("the drives are no longer needed");
    }
}

#[test]
fn nbdinfo_sees_what_is_exported() {
    if !have("nbdinfo") {
        return;
    }
    on_every_level("nbdinfo", |controller, volume| {
        let text = run("nbdinfo", &["--json", &controller.uri(volume)]);
        let info: serde_json::Value = serde_json::from_str(&text).expect("nbdinfo prints JSON");
        let export = &info["exports"][0];
        assert_eq!(export["export-size"].as_u64(), Some(controller.capacity(volume)));
        for can in [
            "can_flush",
            "can_fua",
            "can_trim",
            "can_zero",
            "can_multi_conn",
            "can_cache",
            "can_df",
        ] {
            assert_eq!(export[can], true, "{can}: {export}");
        }
        assert_eq!(export["is_read_only"], false);
        assert_eq!(export["contexts"][0], "base:allocation");
        let list = run(
            "nbdinfo",
            &["--list", &format!("nbd+unix:///?socket={}", controller.nbd_socket())],
        );
        assert!(list.contains(&format!("export=\"{volume}\"")), "{list}");
    });
}

#[test]
fn nbdcopy_and_qemu_img_bring_an_image_in_and_out_unchanged() {
    if !(have("nbdcopy") && have("qemu-img") && have("cmp")) {
        return;
    }
    on_every_level("copies", |controller, volume| {
        let size = controller.capacity(volume) as usize;
        let (uri, image) = (controller.uri(volume), controller.folder.0.join("in.img"));
        let (image_path, back) =
            (controller.folder.file("in.img"), controller.folder.file("out.img"));
        pattern_file(&image, 1, size);
        run("nbdcopy", &["--connections=4", "--flush", &image_path, &uri]);
        run("nbdcopy", &["--connections=4", &uri, &back]);
        run("cmp", &[&image_path, &back]);
        run("qemu-img", &["compare", "-f", "raw", "-F", "raw", &image_path, &uri]);

        pattern_file(&image, 2, size);
        run("qemu-img", &["convert", "-n", "-f", "raw", "-O", "raw", &image_path, &uri]);
        run("qemu-img", &["compare", "-f", "raw", "-F", "raw", &image_path, &uri]);
        run("qemu-img", &["convert", "-f", "raw", "-O", "raw", &uri, &back]);
        run("cmp", &[&image_path, &back]);
    });
}

#[test]
fn qemu_img_maps_what_was_written_and_nothing_else() {
    if !(have("qemu-img") && have("qemu-io")) {
        return;
    }
    let controller = Controller::new("map");
    controller.volume("v", "raid5", 4);
    let uri = controller.uri("v");
    run("qemu-io", &["-f", "raw", "-c", "write -P 7 1M 256k", "-c", "flush", &uri]);
    let text = run("qemu-img", &["map", "--output=json", "-f", "raw", &uri]);
    let map: serde_json::Value = serde_json::from_str(&text).expect("qemu-img prints JSON");
    let data: u64 = map
        .as_array()
        .expect("extents")
        .iter()
        .filter(|extent| extent["zero"] == false)
        .map(|extent| extent["length"].as_u64().expect("a length"))
        .sum();
    assert!((256 << 10..=8 << 20).contains(&data), "{data} bytes are said to be data:\n{text}");
    let covering = map.as_array().expect("extents").iter().find(|extent| {
        let start = extent["start"].as_u64().expect("a start");
        start <= 1 << 20 && start + extent["length"].as_u64().expect("a length") > 1 << 20
    });
    assert_eq!(covering.expect("an extent covers the write")["zero"], false, "{text}");
}

#[test]
fn qemu_io_finds_its_patterns_at_any_byte() {
    if !have("qemu-io") {
        return;
    }
    on_every_level("qemu-io", |controller, volume| {
        let uri = controller.uri(volume);
        let script = [
            "write -P 0xaa 0 1M",
            "write -f -P 0xbb 1000 3000",
            "write -P 0xcc 65000 70000",
            "write -P 0xdd 131071 1",
            "write -z 262144 65536",
            "write -z 300001 12345",
            "discard 524288 262144",
            "flush",
            "read -P 0xaa 0 1000",
            "read -P 0xbb 1000 3000",
            "read -P 0xaa 4000 61000",
            "read -P 0xcc 65000 66071",
            "read -P 0xdd 131071 1",
            "read -P 0xcc 131072 3928",
            "read -P 0xaa 135000 1000",
            "read -P 0 262144 50202",
            "read -P 0xaa 786432 262144",
        ];
        let mut arguments = vec!["-f", "raw"];
        arguments.extend(script.iter().flat_map(|command| ["-c", command]));
        arguments.push(&uri);
        let said = run("qemu-io", &arguments);
        assert!(!said.contains("Pattern verification failed"), "{said}");
    });
}

#[test]
fn fio_verifies_what_it_wrote() {
    if !have("fio") {
        return;
    }
    if !run("fio", &["--enghelp"]).contains("nbd") {
        return not_possible("fio over NBD", "this fio has no nbd engine");
    }
    on_every_level("fio", |controller, volume| {
        let uri = format!("--uri={}", controller.uri(volume));
        // Every block is written once: fio cannot order overlapping writes.
        for block in ["512", "4k", "12k", "192k"] {
            let size = format!("--size={}", (controller.capacity(volume) / 2).min(6 << 20));
            let block = format!("--bs={block}");
            let said = run(
                "fio",
                &[
                    "--name=verify",
                    "--thread",
                    "--ioengine=nbd",
                    &uri,
                    "--rw=randrw",
                    &block,
                    "--iodepth=16",
                    &size,
                    "--verify=crc32c",
                    "--do_verify=1",
                    "--verify_fatal=1",
                    "--verify_state_save=0",
                    "--randseed=7",
                    "--fsync=64",
                ],
            );
            assert!(said.contains("err= 0"), "{said}");
        }
    });
}

#[test]
fn a_file_system_lives_on_it() {
    if !can_mount() {
        return;
    }
    let controller = Controller::new("ext4");
    controller.volume("v", "raid5", 4);
    let mounted = Mounted::new(&controller, "v");
    match mounted {
        Err(why) => not_possible("a file system on it", &why),
        Ok(mounted) => {
            run("cp", &["-r", concat!(env!("CARGO_MANIFEST_DIR"), "/src"), &mounted.mount]);
            controller.softroc(&["drive", "fail", "v:2"]).ok();
            run(
                "sh",
                &[
                    "-c",
                    &format!(
                        "cp -r {0}/src {0}/again && sync {0} && diff -r {0}/src {0}/again",
                        mounted.mount
                    ),
                ],
            );
            mounted.unmount_and_check();
        }
    }
}
