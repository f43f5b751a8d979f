//! The database returns what was stored, also after a process was killed.

use results::{NewRun, RunState, Store};
use std::path::PathBuf;
use storagebench::{Environment, Method, Results, Row, Settings};

/// A folder for each test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("results-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    fn database(&self) -> PathBuf {
        self.0.join("results.db")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn row(profile: &str, outstanding: u32) -> Row {
    let split = r#"{"ios":5,"iops":0.5,"throughput_mib_s":0.25,"latency_us":null,"errors":0}"#;
    let trace = r#"{"ios":[1,4],"bytes":[8,9],"latency_ns_sum":[3,4]}"#;
    let text = format!(
        r#"{{"target":"t","profile":"{profile}","access":"random","read_percent":67,"block_bytes":8192,
            "outstanding":{outstanding},"workers":1,"duration_s":10.0,"ios":10,"iops":1.5,"throughput_mib_s":0.5,
            "latency_us":null,"cpu_percent":null,"errors":0,"read":{split},"write":{split},
            "detail":{{"slice_s":0.25,"read":{trace},"write":{trace},"latency_us_p99":[null,1.5],
                       "read_latency_ns":"HISTx","write_latency_ns":"HISTy"}}}}"#
    );
    serde_json::from_str(&text).unwrap()
}

fn begin(store: &Store, name: &str) -> results::RunId {
    let new = NewRun { name: name.into(), host: "h".into(), started_unix_s: 100 };
    let environment = Environment(vec![("kernel".into(), "6.1".into())]);
    store.begin(&new, &Method::of(&Settings::default()), &environment).unwrap()
}

#[test]
fn a_run_comes_out_as_it_went_in() {
    let folder = Folder::new("round");
    let store = Store::open(&folder.database()).unwrap();
    let run = begin(&store, "before");
    store.add_row(run, &row("database", 1));
    store.add_row(run, &row("streaming", 8));
    store.finish(run, RunState::Complete, &["a note".into()], 160).unwrap();
    drop(store);
    let store = Store::open(&folder.database()).unwrap();
    let (about, loaded) = store.load(run).unwrap();
    let mut expected = Results::new(Method::of(&Settings::default()), loaded.environment.clone());
    expected.notes = vec!["a note".into()];
    expected.add_row(row("database", 1));
    expected.add_row(row("streaming", 8));
    assert_eq!(loaded, expected);
    assert!(loaded.rows[1].detail.is_some());
    assert_eq!(
        (about.targets, about.profiles),
        (vec!["t".to_owned()], vec!["database".into(), "streaming".into()])
    );
    assert_eq!((about.rows, about.state, about.ended_unix_s), (2, RunState::Complete, Some(160)));
    assert_eq!(loaded.environment.0[0].1, "6.1");
}

#[test]
fn runs_are_found_by_number_by_name_and_the_last() {
    let folder = Folder::new("find");
    let store = Store::open(&folder.database()).unwrap();
    assert!(
        store
            .find("last")
            .unwrap_err()
            .to_string()
            .contains("there is no run 'last'; softroc bench list")
    );
    let [first, second, third] = ["a", "a", "7"].map(|name| begin(&store, name));
    assert_eq!(store.find("last").unwrap(), third);
    assert_eq!(store.find("a").unwrap(), second);
    assert_eq!(store.find(&first.to_string()).unwrap(), first);
    // A name takes precedence over a number.
    assert_eq!(store.find("7").unwrap(), third);
    assert!(store.find("b").is_err() && store.find("99").is_err());
    store.delete(second).unwrap();
    assert_eq!(store.find("a").unwrap(), first);
    assert!(store.delete(second).is_err() && store.load(second).is_err());
    assert_eq!(store.list().unwrap().len(), 2);
    // Numbers are never reused.
    store.delete(third).unwrap();
    assert!(begin(&store, "") > third);
}

#[test]
fn rows_of_a_run_that_never_ended_are_kept() {
    let folder = Folder::new("killed");
    let store = Store::open(&folder.database()).unwrap();
    let run = begin(&store, "");
    store.add_row(run, &row("database", 1));
    // Another process opens the same file meanwhile.
    let other = Store::open(&folder.database()).unwrap();
    drop(store);
    let (about, loaded) = other.load(run).unwrap();
    assert_eq!((about.state, about.ended_unix_s, loaded.rows.len()), (RunState::Running, None, 1));
}

#[test]
fn a_row_that_cannot_be_kept_is_reported_at_the_end() {
    let folder = Folder::new("row");
    let store = Store::open(&folder.database()).unwrap();
    let run = begin(&store, "");
    store.delete(run).unwrap();
    store.add_row(run, &row("database", 1));
    let error = store.finish(run, RunState::Complete, &[], 1).unwrap_err().to_string();
    assert!(error.starts_with("a row could not be stored: "), "{error}");
}

#[test]
fn what_is_no_results_database_is_refused_and_left_alone() {
    let folder = Folder::new("other");
    let path = folder.database();
    std::fs::write(
        &path,
        "this is a letter, not a database; it is long enough to look at".repeat(20),
    )
    .unwrap();
    let before = std::fs::read(&path).unwrap();
    let error = Store::open(&path).err().unwrap().to_string();
    assert!(error.contains("results.db cannot be used: file is not a database"), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
    std::fs::remove_file(&path).unwrap();
    rusqlite::Connection::open(&path).unwrap().execute_batch("CREATE TABLE letters (a)").unwrap();
    assert!(Store::open(&path).err().unwrap().to_string().contains("of another program"));
    std::fs::remove_file(&path).unwrap();
    rusqlite::Connection::open(&path).unwrap().pragma_update(None, "user_version", 9).unwrap();
    assert!(
        Store::open(&path)
            .err()
            .unwrap()
            .to_string()
            .contains("version 9, and this program supports 1")
    );
    assert!(Store::open(&folder.0.join("nowhere/x.db")).is_err());
}

#[test]
fn the_database_is_this_users_alone_and_a_link_is_not_followed() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new("link");
    drop(Store::open(&folder.database()).unwrap());
    assert_eq!(std::fs::metadata(folder.database()).unwrap().permissions().mode() & 0o777, 0o600);
    let moved = folder.0.join("moved.db");
    std::fs::rename(folder.database(), &moved).unwrap();
    std::os::unix::fs::symlink(&moved, folder.database()).unwrap();
    let error = Store::open(&folder.database()).err().unwrap().to_string();
    assert!(
        error.contains("results.db cannot be used: it is a symbolic link, which is not followed"),
        "{error}"
    );
}
