//! `softroc foreign` in use: an array that Linux md created in DDF is listed, imported, and served
//! to an external program; drives are cleared. The controller's tests cover errors and
//! interruptions.

mod common;

use common::{Controller, have, run};
use std::path::Path;

#[test]
fn an_array_of_another_system_is_imported_and_its_data_are_served() {
    if !have("xz") || !have("nbdcopy") {
        return;
    }
    let controller = Controller::new("foreign");
    let images =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../rescue/tests/images/ddf-two-vols.tar.xz");
    run("tar", &["-xJSf", images.to_str().unwrap(), "-C", controller.folder.0.to_str().unwrap()]);
    let mut drives: Vec<String> =
        (0..8).map(|number| controller.folder.file(&format!("disk{number}.img"))).collect();
    drives.retain(|drive| Path::new(drive).exists());
    let mut arguments = vec!["drive", "add"];
    arguments.extend(drives.iter().map(String::as_str));
    controller.softroc(&arguments).ok();

    let listed = controller.json(&["foreign", "list"]);
    let names: Vec<&str> =
        listed["volumes"].as_array().unwrap().iter().map(|v| v["name"].as_str().unwrap()).collect();
    assert_eq!(names.len(), 2, "{listed}");
    let text = controller.softroc(&["foreign", "list"]).ok();
    assert!(
        text.contains("can be imported, together with") && text.contains("ddf 01.02.00"),
        "{text}"
    );
    let refused = controller.softroc(&["foreign", "import", names[0]]).refused();
    assert!(
        refused.contains("no longer recognises its drives") && refused.contains("--yes"),
        "{refused}"
    );

    controller.softroc(&["foreign", "import", names[0], "--name", "first", "--yes"]).ok();
    for (name, foreign) in [("first", names[0]), (names[1], names[1])] {
        let copy = controller.folder.file(&format!("{name}.img"));
        run("nbdcopy", &[&controller.uri(name), &copy]);
        let bytes = std::fs::read(&copy).unwrap();
        let volume = listed["volumes"]
            .as_array()
            .unwrap()
            .iter()
            .find(|volume| volume["name"] == foreign)
            .unwrap();
        assert_eq!(volume["size_bytes"], bytes.len());
        for (number, sector) in bytes.chunks(512).enumerate() {
            let text = format!("LBA={number:012}");
            assert!(
                sector.chunks(16).all(|part| part == text.as_bytes()),
                "{name}: sector {number}"
            );
        }
    }
    let text = controller.softroc(&["foreign", "list"]).ok();
    assert!(text.contains("No foreign volumes"), "{text}");
    let refused = controller.softroc(&["foreign", "clear", &drives[0], "--yes"]).refused();
    assert!(refused.contains("delete that volume first"), "{refused}");
}
