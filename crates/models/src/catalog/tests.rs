//! Built-in files are readable, and invalid files give an error sentence.

use super::*;

/// A rotating drive and its capacity, for tests of its parts.
pub(crate) fn rotating_15k() -> (RotatingSpec, u64) {
    let drive = Catalog::builtin().drive("SAS-6G-HDD").unwrap();
    match &drive.kind {
        DriveKind::Rotating(spec) => (spec.clone(), drive.capacity_bytes),
        DriveKind::Ssd(_) => unreachable!("it has a spindle"),
    }
}

#[test]
fn every_file_can_be_read() {
    let mut catalog = Catalog::default();
    let names: std::collections::BTreeSet<&str> =
        builtin::FILES.iter().map(|(file, _)| *file).collect();
    assert_eq!(names.len(), builtin::FILES.len(), "a file is there twice");
    for (file, text) in builtin::FILES {
        catalog.read(file, text).unwrap();
    }
    assert_eq!((catalog.drives.len(), catalog.controllers.len()), (16, 35));
    let folded: Vec<String> = catalog
        .controllers
        .iter()
        .flat_map(|controller| std::iter::once(&controller.model).chain(&controller.aliases))
        .map(|name| super::folded(name))
        .collect();
    let unique: std::collections::BTreeSet<&String> = folded.iter().collect();
    assert_eq!(unique.len(), folded.len(), "no name means two controllers");
}

#[test]
fn names_are_found_however_they_are_written() {
    let catalog = Catalog::builtin();
    for name in ["PRAID CP400i", "praid-cp400i", "CP400I", "cp 400i"] {
        assert_eq!(catalog.controller(name).unwrap().model, "PRAID CP400i");
    }
    assert_eq!(catalog.drive("seagate st91000640ns").unwrap().aliases[0], "SATA-6G-HDD");
    for name in ["ST973451SS", "st973451ss", "Seagate ST973451SS", "seagate-st973451ss"] {
        assert_eq!(
            catalog.drive(name).unwrap().model,
            "Seagate ST973451SS",
            "with and without its maker"
        );
    }
    let sentence = catalog.controller("PERC").unwrap_err().to_string();
    assert!(sentence.contains("'PERC'") && sentence.contains("LSI2008"), "{sentence}");
}

#[test]
fn a_wrong_file_gets_file_line_and_key() {
    let (_, good) = builtin::FILES.iter().find(|(file, _)| file.contains("toshiba-mk")).unwrap();
    for (from, to, parts) in [
        ("rpm = {", "rpn = {", &[":7: ", "'rpm' is missing"][..]),
        (
            "rpm = { value = 15000",
            "rpm = { value = 15",
            &["'rpm'", "15 is not from 3600 to 20000", ":13: "],
        ),
        ("rpm = { value = 15000", "rpm = { value = \"fast\"", &["'rpm'", ":13: "]),
        (
            "rpm = {",
            "colour = { value = 1, source = \"assumed\" }\nrpm = {",
            &["'colour' is not known", ":13: "],
        ),
        (
            "interface = \"SAS 6G\"",
            "interface = \"IDE\"",
            &["'interface'", "'IDE' is no drive link", ":4: "],
        ),
        ("kind = \"rotating\"", "kind = \"tape\"", &["'kind'", "'tape'", ":1: "]),
        (
            "source = \"data sheet\"",
            "source = \"a friend\"",
            &["a friend", "begin with one of published"],
        ),
        ("model =", "modell =", &["modell", ":2: "]),
    ] {
        let text = good.replacen(from, to, 1);
        assert_ne!(text, *good, "{from}");
        let sentence = Catalog::default().read("mine.toml", &text).unwrap_err().to_string();
        assert!(sentence.starts_with("mine.toml:"), "{sentence}");
        for part in parts {
            assert!(sentence.contains(part), "{part}: {sentence}");
        }
    }
}

#[test]
fn ones_own_file_takes_the_place_of_the_built_in_one() {
    let (file, good) = builtin::FILES.iter().find(|(file, _)| file.contains("toshiba-mk")).unwrap();
    let mut catalog = Catalog::builtin().clone();
    catalog.read(file, &good.replacen("value = 15000", "value = 10000", 1)).unwrap();
    assert_eq!(catalog.drives.len(), Catalog::builtin().drives.len());
    let mut drive = catalog.drive("SAS-6G-HDD").unwrap().clone();
    assert_eq!(drive.parameter("rpm"), Some(&mut 10000));
    assert_eq!(drive.parameter("colour"), None);
}

/// Everything in the papers, by the papers' names.
#[test]
fn every_controller_of_the_papers_is_there_with_the_cache_that_it_has() {
    let catalog = Catalog::builtin();
    for (name, mib, protection) in [
        ("LSI1078", 512, "BBU"),
        ("LSI2108", 512, "BBU"),
        ("LSI2208-1G", 1024, "FBU"),
        ("LSI2208-1G-2.0", 1024, "FBU"),
        ("LSI2208-1G-3.0", 1024, "FBU"),
        ("LSI2208-512-2.0", 512, "FBU"),
        ("LSI2208-512-3.0", 512, "FBU"),
        ("PRAID EM400i", 1024, "FBU"),
        ("PRAID EP400i", 1024, "FBU"),
        ("PRAID EP420i", 2048, "FBU"),
        ("RMS3CC080", 1024, "FBU"),
        ("RS3DC080", 1024, "FBU"),
        ("9260-8i", 512, "BBU"),
        ("9260CV-8i", 512, "CacheVault"),
        ("Adaptec 3805", 128, "BBU"),
        ("Atto R348", 256, "BBU"),
        ("ICP 5085BL", 256, "BBU"),
        ("3ware 9750-8i", 512, "BBU"),
    ] {
        let controller = catalog.controller(name).unwrap();
        let cache = controller.cache.as_ref().unwrap();
        assert_eq!((controller.cache_mib, cache.protection.as_str()), (mib, protection), "{name}");
        assert!(cache.spec.low_mark_percent < cache.spec.high_mark_percent, "{name}");
    }
    for name in ["Raidcore RC5252-8", "PRAID CP400i", "LSI2008", "direct"] {
        assert_eq!(catalog.controller(name).unwrap().cache, None, "{name}");
    }
}

#[test]
fn what_is_wrong_with_a_cache_is_named() {
    let (_, good) = builtin::FILES.iter().find(|(file, _)| file.contains("ep400i")).unwrap();
    for (from, to, parts) in [
        ("protection = \"FBU\"\n", "", &["'protection' is missing", "protection = \"FBU\""][..]),
        ("protection = \"FBU\"", "protection = \"prayer\"", &["'prayer'", "CacheVault", ":8: "]),
        ("\"data-protection\"", "\"turbo\"", &["'presets'", "'turbo'", ":9: "]),
        ("\"read-mode\"", "\"colour\"", &["'settings'", "'colour'"]),
        (
            "cache_mib = { value = 1024",
            "cache_mib = { value = 0",
            &["'protection' is of a cache", ":8: "],
        ),
        (
            "low_mark_percent = { value = 47",
            "low_mark_percent = { value = 50",
            &["not below high_mark_percent"],
        ),
        (
            "fast_path_command_ns = { value = 2000",
            "fast_path_command_ns = { value = 0",
            &["preset fast-path"],
        ),
        ("memory_mib_s = {", "memory_kib_s = {", &["'memory_mib_s' is missing"]),
    ] {
        let text = good.replacen(from, to, 1);
        assert_ne!(text, *good, "{from}");
        let sentence = Catalog::default().read("mine.toml", &text).unwrap_err().to_string();
        for part in parts {
            assert!(sentence.contains(part), "{part}: {sentence}");
        }
    }
}
