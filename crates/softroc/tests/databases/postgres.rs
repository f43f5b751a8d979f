//! PostgreSQL with its own programs: a cluster on the volume, clients by `pgbench`, verified by
//! `pg_amcheck`.

use crate::common::{not_installed, not_possible, run, until};
use crate::machine::Machine;
use std::collections::BTreeSet;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The number of concurrent clients.
pub const CLIENTS: usize = 4;

/// The TPC-B transaction of pgbench, with a `filler` that identifies each transaction.
const TRANSACTION: &str = "\
\\set n :n + 1
\\set aid random(1, 100000 * :scale)
\\set bid random(1, 1 * :scale)
\\set tid random(1, 10 * :scale)
\\set delta random(-5000, 5000)
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;
UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = :bid;
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime, filler)
  VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP, concat_ws('-', :round, :client_id, :n));
END;
";

/// The first three are the defaults; they are explicit because the test depends on them. After a
/// crash nothing restarts by itself.
const SETTINGS: &[&str] = &[
    "fsync=on",
    "synchronous_commit=on",
    "full_page_writes=on",
    "listen_addresses=",
    "restart_after_crash=off",
];

/// Little memory, and evicted pages are written at once: much data is written and not flushed.
const TIGHT: &[&str] = &[
    "shared_buffers=1MB",
    "backend_flush_after=8kB",
    "bgwriter_flush_after=8kB",
    "checkpoint_flush_after=8kB",
    "min_wal_size=2MB",
    "max_wal_size=8MB",
    "checkpoint_timeout=30s",
];

const BALANCES: &str = "SELECT (SELECT sum(abalance) FROM pgbench_accounts), \
     (SELECT sum(tbalance) FROM pgbench_tellers), \
     (SELECT sum(bbalance) FROM pgbench_branches), \
     (SELECT coalesce(sum(delta), 0) FROM pgbench_history)";

const ROWS: &str = "SELECT (SELECT count(*) FROM pgbench_accounts), \
     (SELECT count(*) FROM pgbench_tellers), \
     (SELECT count(*) FROM pgbench_branches)";

/// PostgreSQL's programs, and their user: they refuse to run as root.
pub struct Programs {
    folder: PathBuf,
    user: Option<(u32, u32)>,
}

impl Programs {
    /// `None`, with a printed reason: not installed.
    pub fn find() -> Option<Programs> {
        let needed = ["initdb", "postgres", "psql", "pgbench", "pg_amcheck", "pg_checksums"];
        let has_all =
            |folder: &PathBuf| needed.iter().all(|program| folder.join(program).is_file());
        let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        let version = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u32>().ok();
        let mut debian: Vec<PathBuf> = versions.map(|entry| entry.path()).collect();
        debian.sort_by_key(|path| std::cmp::Reverse(version(path)));
        let on_path = std::env::var_os("PATH").unwrap_or_default();
        let mut folders =
            debian.into_iter().map(|path| path.join("bin")).chain(std::env::split_paths(&on_path));
        let Some(folder) = folders.find(has_all) else {
            not_installed("PostgreSQL 14 or newer");
            return None;
        };
        if number("-u", None) != Some(0) {
            return Some(Programs { folder, user: None });
        }
        let user = ["postgres", "nobody"]
            .iter()
            .find_map(|&name| Some((number("-u", Some(name))?, number("-g", Some(name))?)));
        if user.is_none() {
            not_possible(
                "PostgreSQL",
                "it refuses to run as root, and there is no user 'postgres' or 'nobody'",
            );
        }
        Some(Programs { folder, user: Some(user?) })
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.folder.join(program));
        command.stdin(Stdio::null()).current_dir("/").env("LC_ALL", "C");
        if let Some((user, group)) = self.user {
            command.uid(user).gid(group);
        }
        command
    }

    /// Changes the owner of a folder to that user.
    fn give(&self, folder: &Path) {
        if let Some((user, group)) = self.user {
            std::os::unix::fs::chown(folder, Some(user), Some(group)).expect("root may do that");
        }
    }
}

/// The ID of a user, or of a user's group.
fn number(which: &str, name: Option<&str>) -> Option<u32> {
    let output = Command::new("id").arg(which).args(name).output().ok()?;
    String::from_utf8_lossy(&output.stdout).trim().parse().ok()
}

/// A cluster on the volume, and the knowledge of its clients, which is stored elsewhere.
pub struct Cluster {
    programs: Programs,
    data: PathBuf,
    /// Sockets, logs and the notes of the clients.
    beside: PathBuf,
    server: Option<Child>,
    /// The length of the server's log at its last start.
    log_before: usize,
    loads: u64,
    /// Transactions reported as committed to a client.
    heard: BTreeSet<String>,
}

/// Clients that write.
pub struct Load {
    pgbench: Child,
    round: u64,
    /// The number of earlier transactions.
    from: u64,
}

impl Load {
    /// Whether it is still running.
    pub fn goes_on(&mut self) -> bool {
        self.pgbench.try_wait().expect("it can be asked").is_none()
    }
}

impl Cluster {
    /// A new, running cluster with pgbench's tables.
    pub fn create(programs: Programs, machine: &Machine) -> Cluster {
        let (data, beside) = (machine.folder("pg"), machine.controller.folder.0.join("pg"));
        std::fs::create_dir_all(&beside).expect("a folder");
        programs.give(&data);
        programs.give(&beside);
        std::fs::write(beside.join("transaction.sql"), TRANSACTION).expect("a script");
        let mut cluster = Cluster {
            programs,
            data,
            beside,
            server: None,
            log_before: 0,
            loads: 0,
            heard: BTreeSet::new(),
        };
        let options =
            ["-U", "postgres", "-A", "trust", "--no-locale", "--data-checksums", "--wal-segsize=1"];
        let mut initdb = cluster.program("initdb");
        succeeds(initdb.arg("-D").arg(&cluster.data).args(options));
        cluster.start_with(SETTINGS);
        succeeds(cluster.program("pgbench").args(["-i", "-s", "1", "-q"]));
        cluster.ask("CREATE UNIQUE INDEX ON pgbench_history (filler)");
        cluster.ask("CREATE EXTENSION amcheck");
        cluster.stop();
        cluster.start();
        cluster
    }

    /// A program of PostgreSQL's that finds this cluster.
    fn program(&self, program: &str) -> Command {
        let mut command = self.programs.command(program);
        command.env("PGHOST", &self.beside).env("PGPORT", "5432");
        command.env("PGUSER", "postgres").env("PGDATABASE", "postgres");
        command
    }

    fn query(&self, sql: &str) -> Command {
        let mut command = self.program("psql");
        command.args(["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-c", sql]);
        command
    }

    fn ask(&self, sql: &str) -> String {
        succeeds(&mut self.query(sql))
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.beside.join("server.log")).unwrap_or_default()
    }

    /// Whether its last start included a recovery.
    pub fn has_recovered(&self) -> bool {
        self.log_since_start().contains("automatic recovery in progress")
    }

    /// The server's log since its last start.
    fn log_since_start(&self) -> String {
        self.log()[self.log_before..].to_owned()
    }

    /// Returns when it responds: its recovery is complete.
    pub fn start(&mut self) {
        self.start_with(&[SETTINGS, TIGHT].concat());
    }

    fn start_with(&mut self, settings: &[&str]) {
        self.log_before = self.log().len();
        let log = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.beside.join("server.log"));
        let log = log.expect("a log file");
        let mut command = self.program("postgres");
        command.arg("-D").arg(&self.data).arg("-k").arg(&self.beside);
        command.args(settings.iter().flat_map(|setting| ["-c", setting]));
        command.stdout(log.try_clone().expect("the same file")).stderr(log);
        let mut server = command.spawn().expect("PostgreSQL starts");
        until("PostgreSQL answers", || {
            let ended = server.try_wait().expect("it can be asked");
            assert!(ended.is_none(), "PostgreSQL has ended: {}", self.log_since_start());
            self.query("SELECT 1").output().expect("psql starts").status.success()
        });
        self.server = Some(server);
    }

    /// Stops it cleanly.
    pub fn stop(&mut self) {
        let mut server = self.server.take().expect("it runs");
        run("kill", &["-INT", &server.id().to_string()]);
        let status = server.wait().expect("it ends");
        assert!(status.success(), "PostgreSQL ended with {status}: {}", self.log_since_start());
    }

    /// Crashes it, if it is running: the next start recovers.
    pub fn crash(&mut self) {
        let mut server = self.server.take().expect("it was started");
        run("kill", &["-QUIT", &server.id().to_string()]);
        server.wait().expect("it ends");
    }

    /// Clients with a number of transactions each, or until they get an error.
    pub fn load(&mut self, transactions: Option<u32>) -> Load {
        self.loads += 1;
        let round = self.loads;
        let mut pgbench = self.program("pgbench");
        pgbench
            .args(["-n", "-j", "1", "-c", &CLIENTS.to_string(), "-f"])
            .arg(self.beside.join("transaction.sql"));
        pgbench.args(["-t", &transactions.unwrap_or(10_000_000).to_string()]);
        pgbench.args(["-D", "n=0", "-D", &format!("round={round}"), "--log", "--log-prefix"]);
        pgbench
            .arg(self.beside.join(format!("round-{round}")))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Load { pgbench: pgbench.spawn().expect("pgbench starts"), round, from: self.transactions() }
    }

    fn transactions(&self) -> u64 {
        self.ask("SELECT count(*) FROM pgbench_history").trim().parse().expect("a number")
    }

    /// Waits for a number of committed transactions of a load, or for its end.
    pub fn wait_for(&self, load: &mut Load, transactions: u64) {
        until("transactions before the kill", || {
            !load.goes_on() || self.transactions() >= load.from + transactions
        });
    }

    /// Waits until its clients have ended, and reads their notes. Returns the output.
    pub fn end_of(&mut self, load: Load) -> String {
        let output = load.pgbench.wait_with_output().expect("it ends");
        let prefix = format!("round-{}.", load.round);
        let files = std::fs::read_dir(&self.beside).expect("the folder is there").flatten();
        for file in files.filter(|file| file.file_name().to_string_lossy().starts_with(&prefix)) {
            // A line for each committed transaction: the client, its index, times.
            for line in
                std::fs::read_to_string(file.path()).expect("what pgbench has written").lines()
            {
                let mut words = line.split(' ');
                let (client, n) =
                    (words.next().unwrap_or_default(), words.next().unwrap_or_default());
                assert!(self.heard.insert(format!("{}-{client}-{n}", load.round)), "twice: {line}");
            }
        }
        format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        )
    }

    /// All pages of all files have correct checksums. The cluster was stopped cleanly.
    pub fn expect_checksums(&self) {
        let said = succeeds(self.program("pg_checksums").arg("--check").arg("-D").arg(&self.data));
        assert!(said.contains("Bad checksums:  0"), "{said}");
    }

    /// All checks succeed, and all transactions reported as committed exist; at most `unheard`
    /// others.
    pub fn judge(&mut self, unheard: usize, when: &str) {
        let checks = ["--heapallindexed", "--parent-check", "--rootdescend"];
        succeeds(self.program("pg_amcheck").args(checks));
        let balances = self.ask(BALANCES);
        let sums: BTreeSet<&str> = balances.trim().split('|').collect();
        assert_eq!(
            sums.len(),
            1,
            "{when}: accounts, tellers, branches and history differ: {balances}"
        );
        assert_eq!(self.ask(ROWS).trim(), "100000|10|1", "{when}");
        let history = self.ask("SELECT filler FROM pgbench_history");
        let found: BTreeSet<String> = history.lines().map(|line| line.trim().to_owned()).collect();
        assert_eq!(found.len(), history.lines().count(), "{when}: a transaction is there twice");
        let lost: Vec<&String> = self.heard.difference(&found).collect();
        assert!(
            lost.is_empty(),
            "{when}: {} committed transactions are lost: {lost:?}",
            lost.len()
        );
        let more: Vec<&String> = found.difference(&self.heard).collect();
        assert!(more.len() <= unheard, "{when}: unreported transactions {more:?}");
        println!(
            "{when}: {} committed transactions exist, {} of them unreported",
            found.len(),
            more.len()
        );
        self.heard = found;
    }
}

/// Runs it to its end; panics with its output when it fails.
fn succeeds(command: &mut Command) -> String {
    let output =
        command.output().unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    let answer = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{command:?} ended with {}:\n{answer}{said}", output.status);
    answer
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // No wait: if its disk hangs, it cannot end before the disk is detached.
        if let Some(mut server) = self.server.take() {
            let _ = server.kill();
        }
    }
}
