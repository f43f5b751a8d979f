//! A simulated drive with the timing of a modelled one: it stores writes, and is as slow as the
//! model.

use models::{Catalog, HostSpec, LinkShares, Prepared, Server, ServerSpec};
use platform::{Buf, Durability, Member};
use platform_sim::{DriveOptions, Latency, Sim, SimOptions};
use std::time::Duration;
use units::{ByteCount, ByteOffset};

const LEN: ByteCount = ByteCount(64 << 10);

fn paced() -> (Sim, Server) {
    let catalog = Catalog::builtin();
    let spec = ServerSpec {
        controller: catalog.controller("HBA").expect("it is in the catalog").clone(),
        drives: vec![catalog.drive("SAS-6G-HDD").expect("it is in the catalog").clone()],
        log: Vec::new(),
        drive_cache: None,
        shares: LinkShares::IN_2016,
        prepared: Prepared { random_percent: 0 },
        host: HostSpec::INFINITELY_FAST,
        fast_path: None,
    };
    let mut sim = Sim::new(SimOptions::seeded(1));
    let server = Server::new(&sim.handle(), &spec);
    let options =
        DriveOptions { latency: Latency::ZERO, ..DriveOptions::sized(ByteCount(64 << 30)) };
    let drive = sim.add_drive("a", options);
    server.pace(0, &drive);
    (sim, server)
}

#[test]
fn a_simulated_drive_has_its_own_content_and_a_models_time() {
    let (mut sim, _server) = paced();
    let env = sim.env();
    let done = sim.run(async move {
        let source = env.world().open_drive("a").await.expect("it is there");
        let drive = Member::new(&env, source.attach(&env).expect("it is there"));
        let mut waits = Vec::new();
        for nth in 0..20 {
            // At distant offsets.
            let at = ByteOffset(nth * 7 % 20 * (3 << 30));
            let began = env.now();
            let data = Buf::copy_of(&vec![nth as u8 + 1; LEN.0 as usize]).freeze();
            let written = drive.write(at, [data].into_iter().collect(), Durability::Cached).await;
            written.result.expect("it is written");
            let mut read = drive.read(at, [Buf::unpooled(LEN)].into_iter().collect()).await;
            read.result.expect("it is read");
            let bytes = read.buffers.pop().expect("its buffer comes back");
            assert!(bytes.bytes().iter().all(|byte| u64::from(*byte) == nth + 1));
            waits.push(env.now().since(began));
        }
        waits
    });
    let waits = done.expect("no stall");
    let mean = waits.iter().sum::<Duration>() / waits.len() as u32;
    // A seek, and revolutions of 4 ms.
    assert!(mean > Duration::from_millis(4) && mean < Duration::from_millis(40), "{mean:?}");
}

/// The model drops outstanding commands when the process dies, and the drive continues to work.
#[test]
fn a_kill_takes_what_a_model_has_under_way() {
    let (mut sim, _server) = paced();
    for _ in 0..3 {
        let env = sim.env();
        env.clone().spawn("reads", async move {
            let source = env.world().open_drive("a").await.expect("it is there");
            let drive = Member::new(&env, source.attach(&env).expect("it is there"));
            loop {
                let read =
                    drive.read(ByteOffset(0), [Buf::unpooled(LEN)].into_iter().collect()).await;
                read.result.expect("it is read");
            }
        });
        let until = sim.now() + Duration::from_millis(25);
        sim.run_until(until).expect("no stall");
        assert!(sim.drive("a").expect("it is there").stats().reads > 0);
        sim.kill();
        sim.restart_process();
    }
}
