//! SQLite in WAL mode: its program keeps accounts on the volume, one numbered transaction after the
//! other.

use crate::common::{have, pattern, run};
use crate::machine::Machine;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

const TABLES: &str = "PRAGMA journal_mode = WAL;
CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL);
CREATE TABLE entry (id INTEGER PRIMARY KEY, account INTEGER NOT NULL, amount INTEGER NOT NULL, \
body TEXT NOT NULL);
CREATE INDEX entry_by_body ON entry (body);
WITH RECURSIVE number (id) AS (SELECT 0 UNION ALL SELECT id + 1 FROM number WHERE id < 99)
  INSERT INTO account SELECT id, 0 FROM number;";

/// A commit is acknowledged when it is flushed. Between checkpoints (at default intervals), only
/// the log has committed data.
const SETTINGS: &str = "PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 1000;";

/// Accounts whose balance differs from the sum of their entries.
const WRONG_ACCOUNTS: &str = "SELECT count(*) FROM account WHERE balance <> \
     (SELECT coalesce(sum(amount), 0) FROM entry WHERE entry.account = account.id);";

/// Whether SQLite's program is installed; prints a note if not.
pub fn is_there() -> bool {
    have("sqlite3")
}

/// The content of an entry. Some are longer than a page.
fn body(number: u64) -> String {
    pattern(number, 50 + (number * 131 % 2500) as usize)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn transaction(number: u64) -> String {
    let (account, amount) = (number * 37 % 100, number * 7919 % 10_000);
    format!(
        "BEGIN; UPDATE account SET balance = balance + {amount} WHERE id = {account}; \
         INSERT INTO entry VALUES ({number}, {account}, {amount}, '{}'); COMMIT; \
         SELECT {number};\n",
        body(number)
    )
}

/// A database on the volume, and the knowledge of its client.
pub struct Books {
    file: String,
    /// The last transaction reported as committed to the client.
    heard: u64,
}

/// The client writes until it gets an error, or is stopped: then SQLite's program is killed without
/// cleanup.
pub struct Clerk {
    from: u64,
    heard: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<String>,
}

impl Clerk {
    /// The number of its committed transactions.
    pub fn committed(&self) -> u64 {
        self.heard.load(Ordering::Relaxed) - self.from
    }

    pub fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }
}

impl Books {
    pub fn create(machine: &Machine) -> Books {
        let file = machine.folder("sqlite").join("books.db").to_str().expect("text").to_owned();
        assert_eq!(run("sqlite3", &["-batch", "-bail", &file, TABLES]).trim(), "wal");
        Books { file, heard: 0 }
    }

    /// A client that continues at the end of the accounts.
    pub fn clerk(&self) -> Clerk {
        let (heard, stop) =
            (Arc::new(AtomicU64::new(self.heard)), Arc::new(AtomicBool::new(false)));
        let (file, told, stopped) = (self.file.clone(), heard.clone(), stop.clone());
        let thread = std::thread::spawn(move || write(&file, &told, &stopped));
        Clerk { from: self.heard, heard, stop, thread }
    }

    /// Stops the client, and records its reported commits. Returns its errors.
    pub fn end_of(&mut self, clerk: Clerk) -> String {
        clerk.stop.store(true, Ordering::Relaxed);
        let said = clerk.thread.join().expect("no panic");
        self.heard = clerk.heard.load(Ordering::Relaxed);
        said
    }

    fn ask(&self, sql: &str) -> String {
        run("sqlite3", &["-batch", "-bail", &self.file, sql])
    }

    /// All checks succeed, and all transactions reported as committed exist; at most `unheard`
    /// others.
    pub fn judge(&mut self, unheard: u64, when: &str) {
        assert_eq!(self.ask("PRAGMA integrity_check;").trim(), "ok", "{when}");
        assert_eq!(
            self.ask(WRONG_ACCOUNTS).trim(),
            "0",
            "{when}: accounts do not agree with their entries"
        );
        let entries = self.ask("SELECT id, body FROM entry ORDER BY id;");
        let mut found = 0;
        for (number, line) in (1..).zip(entries.lines()) {
            assert!(
                line == format!("{number}|{}", body(number)),
                "{when}: transaction {number} is lost"
            );
            found = number;
        }
        let heard = self.heard;
        assert!(found >= heard, "{when}: committed transactions {}..={heard} are lost", found + 1);
        assert!(
            found <= heard + unheard,
            "{when}: unreported transactions {}..={found}",
            heard + 1
        );
        println!(
            "{when}: {found} committed transactions exist, {} of them unreported",
            found - heard
        );
        self.heard = found;
    }
}

/// Runs SQLite's program with one transaction after the other, each after the response to the last.
/// Returns its errors.
fn write(file: &str, heard: &AtomicU64, stop: &AtomicBool) -> String {
    let mut program = Command::new("sqlite3")
        .args(["-batch", "-bail", file])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("sqlite3 starts");
    let mut input = program.stdin.take().expect("an input");
    let mut answers = BufReader::new(program.stdout.take().expect("an output")).lines();
    // A program with an error ignores further input. The error is read below.
    let mut sent = writeln!(input, "{SETTINGS}");
    let pages = answers.next().and_then(Result::ok);
    assert_eq!(pages.as_deref(), Some("1000"), "the settings have responses");
    while sent.is_ok() && !stop.load(Ordering::Relaxed) {
        let number = heard.load(Ordering::Relaxed) + 1;
        sent = input.write_all(transaction(number).as_bytes());
        let Some(Ok(answer)) = answers.next() else { break };
        assert_eq!(answer, number.to_string());
        heard.store(number, Ordering::Relaxed);
    }
    let is_killed = stop.load(Ordering::Relaxed);
    if is_killed {
        program.kill().expect("it can be killed");
    }
    drop(input);
    let mut said = String::new();
    program.stderr.take().expect("its errors").read_to_string(&mut said).expect("text");
    let status = program.wait().expect("it ends");
    if is_killed || status.success() {
        said
    } else {
        format!("sqlite3 ended with {status}: {said}")
    }
}
