//! Databases that nobody here wrote live on a write-back volume whose controller is killed under them: PostgreSQL and SQLite, on
//! ext4, on RAID 5. Where the host tries again it sees a pause and no error. Where it does not, its disk is gone in the middle of
//! everything, as when the host crashes: the databases recover from what the volume has, half of the times from the drives alone, as
//! after a power cut. Each time their own programs look at every page and every index, and every transaction that a client was
//! told is committed is there. When a kill comes, drives stand still: what was written since is in the controller's cache alone.
//!
//! Two kills for each; with `DATABASE_TESTS=all` twenty. When one comes depends on how many transactions were committed.

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

/// After how many more transactions the controller is killed.
fn patience(round: u64) -> u64 {
    40 + round * 97 % 160
}

/// Kills the controller and brings it back while pgbench runs, which ends well. Whether pgbench was busy when the kill came.
fn is_killed_under_load(machine: &mut Machine, cluster: &mut Cluster, patience: u64) -> bool {
    let mut load = cluster.load(Some(100));
    cluster.wait_for(&mut load, patience);
    machine.kill(|| load.goes_on());
    // Who has transactions left cannot end before the controller is back.
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
        // A kill that comes after the last transaction tells nothing, and is done again.
        while !is_killed_under_load(&mut machine, &mut cluster, patience(round)) {}
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
        cluster.wait_for(&mut load, patience(round));
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
        // Each client may have had a commit that it did not hear of.
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
        until("transactions before the kill", || clerk.committed() >= patience(round));
        machine.kill(|| !clerk.has_ended());
        let before = clerk.committed();
        machine.come_back();
        until("transactions after the kill", || clerk.has_ended() || clerk.committed() > before + 20);
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
        until("transactions before the kill", || clerk.committed() >= patience(round));
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
