//! A monitored UPS (`serve --ups`): its states appear in events and change the write mode. When the
//! power fails after a low-battery report, no data is lost.

use crate::common::{Bench, MIB};
use controller::{Command, ProtectionState, Reply, UpsInfo, WriteMode};
use platform::{Address, Buf, Env, Listener};
use smallvec::smallvec;
use std::cell::RefCell;
use std::rc::Rc;
use units::ByteCount;

const DRIVES: [&str; 3] = ["a", "b", "c"];
const NAME: &str = "rack@upsd";

/// The reply of a UPS server: status words, or an invalid line. `None`: no reply.
type Says = Rc<RefCell<Option<String>>>;

/// A server of Network UPS Tools, with the necessary commands.
async fn upsd(env: Env, says: Says) {
    let address = Address::Tcp { host: "upsd".to_owned(), port: 3493 };
    let listener: Rc<dyn Listener> = env.world().listen(&address).await.expect("it listens");
    while let Ok(source) = listener.accept().await {
        let (says, stream) = (says.clone(), source.attach(&env).expect("a stream"));
        env.spawn("one of upsd", async move {
            let mut received = Vec::new();
            loop {
                let mut outcome = stream.receive(Buf::unpooled(ByteCount(64))).await;
                let (Ok(count @ 1..), Some(buf)) = (outcome.result, outcome.buffers.pop()) else {
                    return;
                };
                received.extend_from_slice(&buf.bytes()[..count as usize]);
                while let Some(end) = received.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<u8> = received.drain(..=end).collect();
                    assert_eq!(line, b"GET VAR rack ups.status\n");
                    let Some(words) = says.borrow().clone() else { continue };
                    let answer = match words.starts_with("ERR") {
                        true => format!("{words}\n"),
                        false => format!("VAR rack ups.status \"{words}\"\n"),
                    };
                    if stream
                        .send(smallvec![Buf::copy_of(answer.as_bytes()).freeze()])
                        .await
                        .result
                        .is_err()
                    {
                        return;
                    }
                }
            }
        });
    }
}

/// A host with a UPS in this state, and a volume with this write mode.
fn on_ups(seed: u64, mode: WriteMode, says: &str) -> (Bench, Says) {
    let mut bench = Bench::in_order(seed, 2, 3);
    bench.cache_size = ByteCount(MIB);
    bench.ups = Some(NAME.parse().expect("an address"));
    let says: Says = Rc::new(RefCell::new(Some(says.to_owned())));
    serve_ups(&mut bench, &says);
    bench.boot(&[]);
    bench
        .create_with("data", "raid5", &DRIVES, |wanted| wanted.write_mode = Some(mode))
        .expect("created");
    bench.settle("data");
    (bench, says)
}

fn serve_ups(bench: &mut Bench, says: &Says) {
    let env = bench.sim.env();
    env.clone().spawn("upsd", upsd(env, says.clone()));
}

/// The UPS changes its state, and is polled.
fn say(bench: &mut Bench, says: &Says, words: Option<&str>) {
    *says.borrow_mut() = words.map(str::to_owned);
    bench.wait(30);
}

fn ups(bench: &mut Bench) -> UpsInfo {
    match bench.ask(Command::Info {}).expect("an info reply") {
        Reply::Info { info, .. } => info.ups.expect("there is a UPS"),
        other => panic!("{other:?}"),
    }
}

/// The write mode in effect, and the reason.
fn mode(bench: &mut Bench) -> (String, String) {
    let policies = bench.show("data").policies;
    let policy = policies
        .into_iter()
        .find(|policy| policy.name == "write-mode")
        .expect("the policy is listed");
    (policy.current, policy.reason)
}

fn dirty(bench: &mut Bench) -> u64 {
    bench.show("data").cache.dirty_bytes
}

#[test]
fn each_state_is_seen_in_events_in_show_and_in_what_volumes_do() {
    let (mut bench, says) = on_ups(1, WriteMode::WriteBack, "OL");
    assert_eq!(
        (ups(&mut bench).state, mode(&mut bench).0.as_str()),
        (ProtectionState::Optimal, "write-back")
    );
    bench.write("data", 0, 7, 5000);
    assert!(dirty(&mut bench) > 0);
    for (words, state, current, why) in [
        (Some("OB DISCHRG"), ProtectionState::Degraded, "write-through", "on battery"),
        (Some("OB DISCHRG LB"), ProtectionState::Failed, "write-through", "nearly empty"),
        (Some("OL CHRG"), ProtectionState::Charging, "write-back", ""),
        (Some("ERR DATA-STALE"), ProtectionState::Missing, "write-through", "no contact"),
        (Some("OL"), ProtectionState::Optimal, "write-back", ""),
        (None, ProtectionState::Missing, "write-through", "no contact"),
        (Some("OL RB"), ProtectionState::Degraded, "write-through", "new battery"),
        (Some("OL"), ProtectionState::Optimal, "write-back", ""),
    ] {
        let code = format!("protection.{state}");
        let before = bench.events().iter().filter(|event| event.code == code).count();
        say(&mut bench, &says, words);
        assert_eq!(ups(&mut bench).state, state, "{words:?}");
        let after = bench.events().iter().filter(|event| event.code == code).count();
        assert_eq!(after, before + 1, "{words:?}: one event");
        let (is, reason) = mode(&mut bench);
        assert!(is == current && reason.contains(why), "{words:?}: {is}, {reason}");
        bench.write("data", 70_000, 9, 5000);
        assert_eq!(dirty(&mut bench) > 0, current == "write-back", "{words:?}");
    }
    bench.expect("data", 0, 7, 5000);
}

#[test]
fn always_write_back_goes_on_until_the_battery_is_nearly_empty() {
    let (mut bench, says) = on_ups(2, WriteMode::AlwaysWriteBack, "OL");
    bench.write("data", 0, 7, 5000);
    *says.borrow_mut() = Some("OB".to_owned());
    bench.wait(4);
    assert_eq!(dirty(&mut bench), 0, "dirty data is on the drives at the power cut");
    assert_eq!(mode(&mut bench).0, "always-write-back");
    say(&mut bench, &says, Some("OB LB"));
    assert_eq!(mode(&mut bench).0, "write-through");
    say(&mut bench, &says, Some("OL"));
    assert_eq!(mode(&mut bench).0, "always-write-back");
}

#[test]
fn nothing_is_lost_when_a_nearly_empty_battery_is_followed_by_a_power_cut() {
    for (seed, write_mode) in [(3, WriteMode::WriteBack), (4, WriteMode::AlwaysWriteBack)] {
        let (mut bench, says) = on_ups(seed, write_mode, "OL");
        for number in 0..40 {
            bench.write("data", number * 9000, 10 + number as u8, 5000);
        }
        assert!(dirty(&mut bench) > 0, "no host has flushed");
        *says.borrow_mut() = Some("OB LB".to_owned());
        bench.wait(4);
        // Later writes are flushed as well, while the battery lasts.
        bench.write("data", 0, 99, 3000);
        bench.wait(4);
        bench.power_cycle(&DRIVES);
        bench.expect("data", 0, 99, 3000);
        bench.expect("data", 3000, 10, 2000);
        for number in 1..40 {
            bench.expect("data", number * 9000, 10 + number as u8, 5000);
        }
    }
}

#[test]
fn a_volume_that_is_started_on_battery_is_write_through_from_the_start() {
    let (mut bench, says) = on_ups(5, WriteMode::WriteBack, "OL");
    *says.borrow_mut() = Some("OB".to_owned());
    bench.forget();
    bench.sim.restart_process();
    serve_ups(&mut bench, &says);
    bench.boot(&DRIVES);
    let (is, why) = mode(&mut bench);
    assert!(is == "write-through" && why.contains("on battery"), "{is}: {why}");
    bench.write("data", 0, 8, 5000);
    assert_eq!(dirty(&mut bench), 0);
    say(&mut bench, &says, Some("OL"));
    assert_eq!(mode(&mut bench).0, "write-back");
    bench.write("data", 0, 9, 5000);
    assert!(dirty(&mut bench) > 0);
}
