//! The list of hosts: their address, start and I/O while they are connected; and the effect of a
//! rename.

mod common;

use common::{Ask, Client, Lost, Machine, RAID5, client_options, options};
use nbd::ReplyStyle;
use platform::HostWork;
use std::time::Duration;

const FIVE: u64 = 1;

#[test]
fn a_host_is_known_by_what_it_does_until_it_leaves() {
    let mut machine = Machine::start(options(1), &[RAID5]);
    let hosts = machine.hosts.clone();
    let seen = hosts.clone();
    machine.run(async move |env| {
        assert_eq!(seen.of(FIVE).len(), 0);
        let options = client_options("five", ReplyStyle::Structured);
        let mut client = Client::connect(&env, options).await.unwrap();
        let date = env.unix_time();
        assert!(client.ask(Ask::write(0, vec![7; 8192])).await.result.is_ok());
        for at in 0..3 {
            assert!(client.ask(Ask::read(at * 4096, 4096)).await.result.is_ok());
        }
        let known = seen.of(FIVE);
        let host = &known[0];
        let is = host.connection();
        assert_eq!((known.len(), is.protocol, is.asked_for.as_str()), (1, "NBD", "five"));
        assert!(is.peer.to_string().starts_with("client "), "{}", is.peer);
        assert!(is.since_unix_s <= date && date - is.since_unix_s < 5, "{is:?}");
        let work = HostWork { reads: 3, read_bytes: 12_288, writes: 1, written_bytes: 8192 };
        assert_eq!((host.work(), host.outstanding()), (work, 0));
        // Included in the recent I/O after two seconds, but not after a minute.
        env.sleep(Duration::from_secs(2)).await;
        assert!(host.lately(env.now()).read_bytes > 0);
        env.sleep(Duration::from_secs(60)).await;
        assert_eq!((host.lately(env.now()), host.work()), (HostWork::default(), work));
        client.leave().await;
    });
    machine.assert_nothing_left();
    assert_eq!(hosts.count(), 0);
}

#[test]
fn what_waits_for_a_drive_is_outstanding_and_who_vanishes_is_forgotten() {
    let mut machine = Machine::start(options(2), &[RAID5]);
    let (hosts, drive) = (machine.hosts.clone(), machine.sim.drive("five0").unwrap());
    machine.run(async move |env| {
        let options = client_options("five", ReplyStyle::Simple);
        let mut client = Client::connect(&env, options).await.unwrap();
        drive.stall_next(8, Duration::from_secs(3));
        let asks: Vec<Ask> = (0..6).map(|at| Ask::read(at * 16384, 4096)).collect();
        let (_, bytes) = client.begin(&asks);
        assert!(client.stream.send(common::slices(&bytes)).await.result.is_ok());
        env.sleep(Duration::from_secs(1)).await;
        let outstanding = hosts.of(FIVE)[0].outstanding();
        assert!((1..=6).contains(&outstanding), "{outstanding}");
        client.stream.shutdown();
    });
    machine.assert_nothing_left();
}

#[test]
fn a_rename_leaves_hosts_connected_and_is_what_the_next_one_asks_for() {
    let mut machine = Machine::start(options(3), &[RAID5]);
    let env = machine.client_env();
    let options = || client_options("five", ReplyStyle::Structured);
    let connecting = env.spawn("client", {
        let env = env.clone();
        async move { Client::connect(&env, options()).await.unwrap() }
    });
    let mut client = machine.sim.finish(&connecting).unwrap();
    let renamed = machine.rename("home");
    machine.sim.finish(&renamed).unwrap();
    let hosts = machine.hosts.clone();
    machine.run(async move |env| {
        // Longer than the check interval for volumes that are no longer served.
        env.sleep(Duration::from_secs(10)).await;
        assert!(client.ask(Ask::write(0, vec![9; 4096])).await.result.is_ok());
        assert_eq!(hosts.of(FIVE)[0].connection().asked_for, "five");
        let refused = Client::connect(&env, options()).await;
        assert!(matches!(refused, Err(Lost::Protocol(_))), "the old name is no name any more");
        let options = client_options("home", ReplyStyle::Structured);
        let mut next = Client::connect(&env, options).await.unwrap();
        assert_eq!(next.ask(Ask::read(0, 4096)).await.data, vec![9; 4096]);
        assert_eq!(hosts.of(FIVE).len(), 2);
        next.leave().await;
        client.leave().await;
    });
    machine.assert_nothing_left();
}
