//! A new process can use a killed process's resources at once.
//!
//! Background: the kernel destroys a ring after its process has ended. Until then the ring holds
//! files, block devices and listening sockets. A controller that started right after another was
//! killed found its block devices and its TCP port "in use", without a holder.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests access the system directly"
)]

mod common;

use common::{Loop, TestDir, on_a_shard};
use platform::{Address, Buf, ErrorKind, Member};
use smallvec::smallvec;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use units::{ByteCount, ByteOffset};

const HOLD: &str = "WORLD_REAL_HOLD";
const ROUNDS: usize = 5;

/// Not a test: the process that is killed. It holds the drives and addresses of the variable, and
/// prints them. It is killed while it works, so that its ring has operations in flight.
#[test]
fn hold_until_killed() {
    let Ok(what) = std::env::var(HOLD) else { return };
    on_a_shard(|env| async move {
        let mut held = Vec::new();
        for what in what.split(' ') {
            held.push(match what.strip_prefix("tcp:") {
                Some(address) => {
                    let listener = env.world().listen(&address.parse().unwrap()).await.unwrap();
                    let address = listener.address().to_string();
                    env.spawn("accept", async move { listener.accept().await.map(drop) });
                    address
                }
                None => {
                    let source = env.world().open_drive(what).await.unwrap();
                    let drive = Member::new(&env, source.attach(&env).unwrap());
                    env.spawn("read", async move { read_for_ever(&drive).await });
                    what.to_owned()
                }
            });
        }
        println!("\nholding {}", held[0]);
        env.sleep(std::time::Duration::from_secs(60)).await;
    });
}

async fn read_for_ever(drive: &Member) {
    loop {
        let buffer = || smallvec![Buf::unpooled(ByteCount(1 << 16))];
        let reads: Vec<_> = (0..32).map(|n| drive.read(ByteOffset(n << 16), buffer())).collect();
        for read in reads {
            read.await.result.unwrap();
        }
    }
}

/// Starts a process that holds `what`; returns its output.
fn start_holder(what: &str) -> (Child, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "hold_until_killed", "--nocapture"]).env(HOLD, what);
    let mut holder = command.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(holder.stdout.take().unwrap()).lines();
    let held = lines
        .map_while(Result::ok)
        .find_map(|line| line.strip_prefix("holding ").map(str::to_owned));
    (holder, held.expect("it holds it"))
}

fn kill(mut holder: Child) {
    holder.kill().unwrap();
    holder.wait().unwrap();
}

#[test]
fn the_port_of_a_killed_server_is_free_for_the_next_and_that_of_a_living_one_is_not() {
    let dir = TestDir::new();
    let drive = dir.file("drive");
    std::fs::write(&drive, vec![1; 4 << 20]).unwrap();
    let mut address = "127.0.0.1:0".to_owned();
    for _ in 0..ROUNDS {
        let (holder, held) = start_holder(&format!("tcp:{address} {drive}"));
        let wanted: Address = held.parse().unwrap();
        let again = wanted.clone();
        let error =
            on_a_shard(|env| async move { env.world().listen(&again).await.err().unwrap() });
        assert_eq!(error.kind, ErrorKind::InUse, "{error}");
        // An open connection does not hold the port either.
        let _client = std::net::TcpStream::connect(&held).unwrap();
        kill(holder);
        on_a_shard(|env| async move {
            let listener = env.world().listen(&wanted).await.unwrap();
            assert_eq!(listener.address(), wanted);
        });
        address = held;
    }
}

#[test]
fn the_block_device_of_a_killed_controller_is_free_for_the_next_and_that_of_a_living_one_is_not() {
    let Some(device) = Loop::new(&[]) else { return };
    for _ in 0..ROUNDS {
        let (holder, held) = start_holder(&device.path);
        let error =
            on_a_shard(|env| async move { env.world().open_drive(&held).await.err().unwrap() });
        assert_eq!(error.kind, ErrorKind::InUse, "{error}");
        assert!(error.to_string().contains(&format!("process {}", holder.id())), "{error}");
        kill(holder);
        let next = device.path.clone();
        let opened = on_a_shard(|env| async move { env.world().open_drive(&next).await.map(drop) });
        opened.unwrap();
    }
}
