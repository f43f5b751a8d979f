//! External databases run on a write-back volume whose controller is killed: PostgreSQL and SQLite,
//! on ext4, on RAID 5. A host that retries sees a pause and no error. Without retries its disk
//! fails, as if the host had crashed: the databases recover from the volume, in half of the cases
//! from the drives only, as after a power cut. Each time their own programs check all pages and
//! indexes, and all transactions reported as committed to a client exist. During a kill drives
//! hang: later writes are in the controller's cache only.
//!
//! Two kills for each; with `DATABASE_TESTS=all` twenty. The time of a kill depends on the number
//! of committed transactions.

#[path = "../common/mod.rs"]
mod common;
mod machine;
mod postgres;
mod sqlite;

use common::until;
use machine::{Machine, Way};
use postgres::{Cluster, Programs};
use sqlite::Books;

fn kills() -> u64 {
    if std::env::var("DATABASE_TESTS").is_ok_and(|which| which == "all") { 20 } else { 2 }
}

/// The number of further transactions before the controller is killed.
fn kill_after(round: u64) -> u64 {
    40 + round * 97 % 160
}

/// Kills and restarts the controller while pgbench runs, which succeeds. Returns whether pgbench
/// was busy at the kill.
fn is_killed_under_load(machine: &mut Machine, cluster: &mut Cluster, kill_after: u64) -> bool {
    let mut load = cluster.load(Some(100));
    cluster.wait_for(&mut load, kill_after);
    machine.kill(|| load.goes_on());
    // A client with transactions left cannot end before the controller is back.
    let was_busy = load.goes_on();
    machine.come_back();
    let said = cluster.end_of(load);
    assert!(said.contains("actually processed: 400/400"), "{said}");
    was_busy
}

#[test]
fn postgresql_sees_a_pause_when_the_controller_is_killed() {
    let Some(programs) = Programs::find() else { return };
    let Some(mut machine) = Machine::new("pg-pause", Way::Patient) else { return };
    let mut cluster = Cluster::create(programs, &machine);
    for round in 1..=kills() {
        // A kill after the last transaction proves nothing, and is repeated.
        while !is_killed_under_load(&mut machine, &mut cluster, kill_after(round)) {}
        let recovers = round % 2 == 1;
        if recovers {
            cluster.crash()
        } else {
            cluster.stop()
        }
        machine.take_disk_off_in_order();
        machine.put_disk_on(Way::Patient);
        if !recovers {
            cluster.expect_checksums();
        }
        cluster.start();
        assert_eq!(cluster.has_recovered(), recovers);
        cluster.judge(0, &format!("kill {round}"));
    }
    cluster.stop();
    machine.take_disk_off_in_order();
}

#[test]
fn postgresql_recovers_when_its_disk_went_away() {
    let Some(programs) = Programs::find() else { return };
    let Some(mut machine) = Machine::new("pg-crash", Way::Direct) else { return };
    let mut cluster = Cluster::create(programs, &machine);
    for round in 1..=kills() {
        let mut load = cluster.load(None);
        cluster.wait_for(&mut load, kill_after(round));
        machine.kill(|| load.goes_on());
        let said = cluster.end_of(load);
        assert!(said.contains("Run was aborted"), "{said}");
        cluster.crash();
        machine.take_disk_off();
        if round % 2 == 0 {
            machine.come_back_without_memory()
        } else {
            machine.come_back()
        }
        machine.put_disk_on(Way::Direct);
        cluster.start();
        assert!(cluster.has_recovered());
        // Each client may have a commit without a response.
        cluster.judge(postgres::CLIENTS, &format!("kill {round}"));
    }
    cluster.stop();
    machine.take_disk_off_in_order();
}

#[test]
fn sqlite_sees_a_pause_when_the_controller_is_killed() {
    if !sqlite::is_there() {
        return;
    }
    let Some(mut machine) = Machine::new("sqlite-pause", Way::Patient) else { return };
    let mut books = Books::create(&machine);
    for round in 1..=kills() {
        let clerk = books.clerk();
        until("transactions before the kill", || clerk.committed() >= kill_after(round));
        machine.kill(|| !clerk.has_ended());
        let before = clerk.committed();
        machine.come_back();
        until("transactions after the kill", || {
            clerk.has_ended() || clerk.committed() > before + 20
        });
        let said = books.end_of(clerk);
        assert!(said.is_empty(), "{said}");
        machine.take_disk_off_in_order();
        machine.put_disk_on(Way::Patient);
        books.judge(0, &format!("kill {round}"));
    }
    machine.take_disk_off_in_order();
}

#[test]
fn sqlite_recovers_when_its_disk_went_away() {
    if !sqlite::is_there() {
        return;
    }
    let Some(mut machine) = Machine::new("sqlite-crash", Way::Direct) else { return };
    let mut books = Books::create(&machine);
    for round in 1..=kills() {
        let clerk = books.clerk();
        until("transactions before the kill", || clerk.committed() >= kill_after(round));
        machine.kill(|| !clerk.has_ended());
        until("an error", || clerk.has_ended());
        let said = books.end_of(clerk);
        assert!(said.contains("disk I/O error"), "{said}");
        machine.take_disk_off();
        if round % 2 == 0 {
            machine.come_back_without_memory()
        } else {
            machine.come_back()
        }
        machine.put_disk_on(Way::Direct);
        books.judge(1, &format!("kill {round}"));
    }
    machine.take_disk_off_in_order();
}
