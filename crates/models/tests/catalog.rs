//! The catalog's folders and the program contain the same files.
#![allow(clippy::disallowed_methods, reason = "tests look at the world from outside")]

use models::Catalog;
use std::collections::BTreeSet;

#[test]
fn every_file_of_the_catalog_is_part_of_the_program() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
    let catalog = Catalog::builtin();
    let drives = catalog.drives.iter().map(|drive| drive.file.clone());
    let known: BTreeSet<String> = drives
        .chain(catalog.controllers.iter().map(|controller| controller.file.clone()))
        .collect();
    let mut there = BTreeSet::new();
    for folder in ["catalog/drives", "catalog/controllers"] {
        for entry in std::fs::read_dir(format!("{root}{folder}")).unwrap() {
            there.insert(format!("{folder}/{}", entry.unwrap().file_name().to_string_lossy()));
        }
    }
    assert_eq!(known, there);
    for file in &known {
        assert_eq!(
            Catalog::text_of(file).unwrap(),
            std::fs::read_to_string(format!("{root}{file}")).unwrap()
        );
    }
}
