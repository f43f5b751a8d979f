//! Connected hosts: how they are listed, which commands they block, and which not.

use crate::common::{Bench, volume};
use controller::{Command, ErrorKind, HostInfo, Reply, StartTask, Startable, VolumeState};
use platform::{BlockTarget, Connected, Connection, Peer, Process};
use std::time::Duration;

const MIB: u64 = 1 << 20;

/// A port reports a new connection to a volume.
fn connect(bench: &Bench, name: &str, command: &str) -> Connected {
    let volume = bench.shards[0].volume_named(name).expect("the volume is online");
    let env = bench.sim.env();
    let process = Process { pid: 4711, uid: 0, command: Some(command.to_owned()) };
    bench.hosts.connect(Connection {
        peer: Peer { address: "unix:/run/nbd.sock".to_owned(), process: Some(process) },
        protocol: "NBD",
        target: volume.number(),
        asked_for: name.to_owned(),
        since: env.now(),
        since_unix_s: env.unix_time(),
    })
}

fn served(seed: u64) -> Bench {
    let mut bench = Bench::new(seed, 2, 3);
    bench.boot(&[]);
    bench.create("data", "raid5", &["a", "b", "c"]);
    bench.write("data", 0, 5, MIB);
    bench.settle("data");
    bench
}

fn delete(disconnect_hosts: bool) -> Command {
    Command::VolumeDelete { volume: "data".into(), disconnect_hosts }
}

fn zero(what: Startable, disconnect_hosts: bool) -> Command {
    let volume = Some("data".to_owned());
    Command::TaskStart(StartTask { what, volume, disconnect_hosts, ..StartTask::default() })
}

#[test]
fn a_volume_tells_who_uses_it_since_when_and_how_much() {
    let mut bench = served(1);
    assert_eq!(bench.show("data").hosts, []);
    bench.wait(100);
    let host = connect(&bench, "data", "qemu-io");
    for _ in 0..10 {
        host.count_read(4096);
        host.count_write(8192);
    }
    host.set_outstanding(3);
    bench.wait(1);
    let HostInfo { host: name, pid, protocol, asked_for, since_unix_s, outstanding, .. } =
        bench.show("data").hosts.remove(0);
    assert_eq!(
        (name.as_str(), pid, protocol.as_str()),
        ("qemu-io (pid 4711, uid 0)", Some(4711), "NBD")
    );
    assert_eq!((asked_for.as_str(), outstanding), ("data", 3));
    assert_eq!(since_unix_s + 1, bench.sim.env().unix_time());
    bench.wait(1);
    let Ok(Reply::Volumes { volumes }) = bench.ask(Command::VolumeList {}) else { panic!() };
    let listed = &volumes[0].hosts[0];
    assert_eq!((listed.reads, listed.read_bytes), (10, 40_960));
    assert_eq!((listed.writes, listed.written_bytes), (10, 81_920));
    assert_eq!((listed.reads_per_s, listed.written_bytes_per_s), (5, 40_960), "across two seconds");
    let Ok(Reply::Info { info }) = bench.ask(Command::Info {}) else { panic!() };
    assert_eq!(info.hosts, 1);
    drop(host);
    assert_eq!(bench.show("data").hosts, []);
}

#[test]
fn a_volume_that_hosts_use_is_not_deleted_unless_they_may_be_disconnected() {
    let mut bench = served(2);
    let hosts: Vec<Connected> =
        ["nbdcopy", "qemu-io", "fio"].map(|name| connect(&bench, "data", name)).into();
    let why = bench.refused(ErrorKind::InUse, delete(false));
    assert!(why.contains("'data' is used by nbdcopy (pid 4711, uid 0) and 2 other hosts"), "{why}");
    assert!(why.contains("'softroc volume delete data --disconnect-hosts'"), "{why}");
    bench.expect("data", 0, 5, MIB);
    let Ok(Reply::Done { notes }) = bench.ask(delete(true)) else { panic!() };
    assert!(
        notes.iter().any(|note| note.contains("disconnected from 'data': nbdcopy")),
        "{notes:?}"
    );
    assert!(bench.shards.iter().all(|shard| shard.volumes().is_empty()));
    drop(hosts);
}

/// `nbdcopy … && softroc volume delete …`: the connection ends shortly after the program.
#[test]
fn a_host_that_is_just_leaving_is_waited_for() {
    let mut bench = served(3);
    let (host, env) = (connect(&bench, "data", "nbdcopy"), bench.sim.env());
    env.clone().spawn("leaving", async move {
        env.sleep(Duration::from_millis(300)).await;
        drop(host);
    });
    bench.ask(delete(false)).unwrap();
}

#[test]
fn a_volume_that_hosts_use_is_not_zeroed_unless_they_may_be_disconnected() {
    for (what, how) in [(Startable::InitFast, "fast"), (Startable::InitFull, "full")] {
        let mut bench = served(4);
        let host = connect(&bench, "data", "mount");
        let why = bench.refused(ErrorKind::InUse, zero(what, false));
        let insisting = format!("'softroc task start init data --{how} --disconnect-hosts'");
        assert!(why.contains("mount (pid 4711, uid 0)") && why.contains(&insisting), "{why}");
        let before = bench.shards[0].volume_named("data").expect("the volume is online");
        bench.ask(zero(what, true)).unwrap();
        bench.wait(60);
        assert!(!before.is_served(), "ports close connections to detached volumes");
        assert_eq!(bench.show("data").hosts, [], "it has no connection");
        bench.expect("data", 0, 0, 64 << 10);
        assert_eq!(bench.show("data").state, VolumeState::Optimal);
        drop(host);
    }
}

#[test]
fn only_what_destroys_data_disconnects_hosts() {
    let mut bench = served(5);
    let why = bench.refused(ErrorKind::Invalid, zero(Startable::Check, true));
    assert!(why.contains("only an initialisation disconnects hosts"), "{why}");
    let host = connect(&bench, "data", "fio");
    bench.ask(zero(Startable::Check, false)).unwrap();
    // A rename keeps the connections; so does a shutdown.
    let rename = Command::VolumeSet { volume: "data".into(), name: "home".into() };
    let (renamed, notes) = volume(bench.ask(rename));
    assert_eq!((renamed.hosts.len(), renamed.hosts[0].asked_for.as_str()), (1, "data"));
    assert!(
        notes[0].contains("still connected: fio (pid 4711, uid 0)") && notes[0].contains("'home'"),
        "{notes:?}"
    );
    bench.expect("home", 0, 5, MIB);
    bench.shut_down();
    drop(host);
}
