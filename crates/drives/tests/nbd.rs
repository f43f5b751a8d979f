//! The NBD drive against a foreign server, nbdkit. Skipped with a message where nbdkit is not
//! installed.
#![allow(clippy::disallowed_methods, reason = "tests look at the world from outside")]

use drives::open;
use platform::{
    BlockStatus, Buf, Durability, Env, ErrorKind, IoErrorKind, IoRequest, Member, Slice,
};
use platform_linux::{Settings, Shard};
use smallvec::smallvec;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use units::{ByteCount, ByteOffset, ByteRange, SectorSize};

const MIB: u64 = 1 << 20;

/// A server for one test; killed on drop.
struct Server {
    process: Child,
    dir: PathBuf,
}

impl Server {
    /// `None`, with the reason printed, if nbdkit is not installed.
    fn start(arguments: &[&str]) -> Option<Server> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("drives-nbd-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Server::start_in(dir, arguments)
    }

    fn start_in(dir: PathBuf, arguments: &[&str]) -> Option<Server> {
        let mut command = Command::new("nbdkit");
        command.args(["-f", "-U"]).arg(dir.join("socket")).args(["-P"]).arg(dir.join("pid"));
        let process = match command.args(arguments).stdin(Stdio::null()).spawn() {
            Ok(process) => process,
            Err(error) => {
                std::fs::remove_dir_all(&dir).unwrap();
                test_tools::not_installed(&format!("nbdkit ({error})"));
                return None;
            }
        };
        let mut server = Server { process, dir };
        // The pid file appears once the server listens.
        while !server.dir.join("pid").exists() {
            assert!(
                server.process.try_wait().unwrap().is_none(),
                "nbdkit {arguments:?} did not start"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        Some(server)
    }

    fn uri(&self) -> String {
        format!("nbd+unix:///?socket={}", self.dir.join("socket").display())
    }

    /// Kills this server and starts another one in its place.
    fn replace(mut self, arguments: &[&str]) -> Server {
        self.kill();
        for file in ["socket", "pid"] {
            std::fs::remove_file(self.dir.join(file)).unwrap();
        }
        let dir = std::mem::take(&mut self.dir);
        Server::start_in(dir, arguments).unwrap()
    }

    fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn on_a_shard<T: 'static, F: Future<Output = T> + 'static>(body: impl FnOnce(Env) -> F) -> T {
    let shard = Shard::new(&Settings::with_memory(ByteCount(64 << 20))).unwrap();
    let future = body(shard.env().clone());
    shard.run(future)
}

async fn attach(env: &Env, uri: &str) -> Member {
    Member::new(env, open(env, uri).await.unwrap().attach(env).unwrap())
}

fn pattern(len: u64, seed: u64) -> Vec<u8> {
    (0..len).map(|i| ((i / 512) * 13 + i * 7 + seed) as u8).collect()
}

async fn write(drive: &Member, start: u64, bytes: &[u8], durability: Durability) {
    let slices = smallvec![Buf::copy_of(bytes).freeze()];
    assert_eq!(
        drive.write(ByteOffset(start), slices, durability).await.result,
        Ok(bytes.len() as u64)
    );
}

async fn read(drive: &Member, start: u64, len: u64) -> Vec<u8> {
    let outcome = drive.read(ByteOffset(start), smallvec![Buf::unpooled(ByteCount(len))]).await;
    assert_eq!(outcome.result, Ok(len));
    outcome.buffers[0].bytes().to_vec()
}

fn range(start: u64, len: u64) -> ByteRange {
    ByteRange::new(ByteOffset(start), ByteCount(len))
}

/// Every request of a drive, with checked results.
async fn exercise(drive: &Member) {
    let bytes = pattern(3 * MIB, 1);
    write(drive, 512, &bytes[..1024], Durability::Durable).await;
    write(drive, MIB, &bytes, Durability::Cached).await;
    drive.flush().await.result.unwrap();
    assert_eq!(read(drive, 512, 1024).await, bytes[..1024]);
    assert!(read(drive, MIB, 3 * MIB).await == bytes);
    // Buffers whose boundaries match no boundary of the protocol.
    let lens = [512u64, 100 << 10, 1536, 70_000, 3 * MIB - 512 - (100 << 10) - 1536 - 70_000];
    let buffers = lens.iter().map(|len| Buf::unpooled(ByteCount(*len))).collect();
    let outcome = drive.read(ByteOffset(MIB), buffers).await;
    assert_eq!(outcome.result, Ok(3 * MIB));
    let lens_back: Vec<u64> = outcome.buffers.iter().map(|buf| buf.len().0).collect();
    assert_eq!(lens_back, lens);
    let got: Vec<u8> = outcome.buffers.iter().flat_map(|buf| buf.bytes().to_vec()).collect();
    assert!(got == bytes);
    // Gathered, with zeroes in between.
    let slices = smallvec![
        Buf::copy_of(&bytes[..700]).freeze(),
        Slice::zero(ByteCount(300)),
        Buf::copy_of(&bytes[..24]).freeze(),
    ];
    assert_eq!(drive.write(ByteOffset(8 * MIB), slices, Durability::Cached).await.result, Ok(1024));
    let expected = [&bytes[..700], &[0; 300], &bytes[..24]].concat();
    assert_eq!(read(drive, 8 * MIB, 1024).await, expected);
    // Zeroes.
    for (start, may_unmap) in [(MIB + 4096, false), (MIB + 64 * 1024, true)] {
        let durability = Durability::Durable;
        let request = IoRequest::WriteZeroes { range: range(start, 8192), may_unmap, durability };
        assert_eq!(drive.start(request).await.result, Ok(8192));
        assert_eq!(read(drive, start, 8192).await, [0; 8192]);
    }
    assert_eq!(read(drive, MIB, 4096).await, bytes[..4096]);
}

#[test]
fn an_export_does_what_a_drive_does() {
    let Some(server) = Server::start(&["memory", "64M"]) else { return };
    on_a_shard(move |env| async move {
        let drive = attach(&env, &server.uri()).await;
        let info = drive.info();
        assert_eq!((info.size, info.kind), (ByteCount(64 * MIB), platform::DriveKind::Remote));
        exercise(&drive).await;
        drive.trim(range(2 * MIB, MIB)).await.result.unwrap();
        let status = drive.start(IoRequest::Status { range: range(0, 64 * MIB) }).await;
        let total: u64 = status.extents.iter().map(|extent| extent.len.0).sum();
        assert_eq!(total, 64 * MIB);
        assert_eq!(status.extents.last().unwrap().status, BlockStatus::Hole);
        assert_eq!(status.extents[0].status, BlockStatus::Data);
    });
}

#[test]
fn a_poor_server_does_as_well() {
    for filters in [
        &["--filter=fua", "--filter=nozero", "memory", "64M"][..],
        &["--no-sr", "memory", "64M"],
        &[
            "--filter=blocksize-policy",
            "memory",
            "64M",
            "blocksize-maximum=64K",
            "blocksize-error-policy=error",
        ],
        &["--filter=noextents", "--filter=delay", "memory", "64M", "rdelay=1ms"],
    ] {
        let Some(server) = Server::start(filters) else { return };
        on_a_shard(move |env| async move {
            let drive = attach(&env, &server.uri()).await;
            exercise(&drive).await;
            let status = drive.start(IoRequest::Status { range: range(0, MIB) }).await;
            assert_eq!(status.extents.iter().map(|extent| extent.len.0).sum::<u64>(), MIB);
        });
    }
}

#[test]
fn a_thousand_requests_at_once_are_each_answered_with_their_own() {
    let Some(server) = Server::start(&["memory", "64M"]) else { return };
    on_a_shard(move |env| async move {
        let drive = attach(&env, &server.uri()).await;
        let len = |i: u64| if i.is_multiple_of(17) { 40 << 10 } else { 4096 };
        let writes: Vec<_> = (0..1000u64)
            .map(|i| {
                let slices = smallvec![Buf::copy_of(&pattern(len(i), i)).freeze()];
                drive.write(ByteOffset(i * (64 << 10)), slices, Durability::Cached)
            })
            .collect();
        for io in writes {
            io.await.result.unwrap();
        }
        let reads: Vec<_> = (0..1000u64)
            .map(|i| {
                drive.read(ByteOffset(i * (64 << 10)), smallvec![Buf::unpooled(ByteCount(len(i)))])
            })
            .collect();
        for (i, io) in reads.into_iter().enumerate() {
            assert!(io.await.buffers[0].bytes() == pattern(len(i as u64), i as u64), "{i}");
        }
    });
}

#[test]
fn a_server_lost_with_writes_in_its_cache_fails_what_is_in_flight_and_what_follows_as_gone() {
    let Some(mut server) = Server::start(&["--filter=delay", "memory", "64M", "rdelay=60"]) else {
        return;
    };
    on_a_shard(move |env| async move {
        let drive = attach(&env, &server.uri()).await;
        write(&drive, 0, &[1; 512], Durability::Cached).await;
        let reads: Vec<_> = [4096, 1 << 20]
            .into_iter()
            .map(|len| drive.read(ByteOffset(0), smallvec![Buf::unpooled(ByteCount(len))]))
            .collect();
        write(&drive, 0, &[2; 512], Durability::Cached).await;
        server.kill();
        for io in reads {
            let outcome = io.await;
            assert_eq!(outcome.result.unwrap_err().kind, IoErrorKind::Gone);
            assert_eq!(outcome.buffers.len(), 1);
        }
        assert_eq!(drive.flush().await.result.unwrap_err().kind, IoErrorKind::Gone);
        assert_eq!(drive.outstanding(), 0);
    });
}

#[test]
fn a_server_that_was_killed_and_started_again_goes_on_where_nothing_was_at_stake() {
    let backing = std::env::temp_dir().join(format!("drives-nbd-backing-{}", std::process::id()));
    let file = backing.to_str().unwrap().to_owned();
    std::fs::write(&backing, vec![0; MIB as usize]).unwrap();
    if let Some(server) = Server::start(&["--filter=delay", "file", &file, "rdelay=60"]) {
        on_a_shard(move |env| async move {
            let drive = attach(&env, &server.uri()).await;
            write(&drive, 0, &[1; 4096], Durability::Cached).await;
            drive.flush().await.result.unwrap();
            write(&drive, 4096, &[2; 4096], Durability::Durable).await;
            let reading = drive.read(ByteOffset(0), smallvec![Buf::unpooled(ByteCount(8192))]);
            // The flush's reply shows that the server has received the read.
            drive.flush().await.result.unwrap();
            let _server = server.replace(&["file", &file]);
            let outcome = reading.await;
            assert_eq!(outcome.result, Ok(8192));
            assert!(outcome.buffers[0].bytes() == [[1; 4096], [2; 4096]].concat());
            write(&drive, 0, &[3; 512], Durability::Durable).await;
            assert_eq!(read(&drive, 0, 1024).await, [[3; 512], [1; 512]].concat());
        });
    }
    let _ = std::fs::remove_file(backing);
}

#[test]
fn errors_of_the_server_come_through() {
    let arguments = ["--filter=error", "memory", "64M", "error-pread-rate=100%", "error=EIO"];
    let Some(server) = Server::start(&arguments) else { return };
    on_a_shard(move |env| async move {
        let drive = attach(&env, &server.uri()).await;
        for len in [512, 256 << 10] {
            let outcome = drive.read(ByteOffset(0), smallvec![Buf::unpooled(ByteCount(len))]).await;
            assert_eq!(outcome.result.unwrap_err().kind, IoErrorKind::Medium);
            assert_eq!(outcome.buffers[0].len(), ByteCount(len));
        }
        write(&drive, 0, &[1; 512], Durability::Cached).await;
        let hollow = drive.read(ByteOffset(0), smallvec![Buf::hollow(ByteCount(512))]).await;
        assert_eq!(hollow.result.unwrap_err().kind, IoErrorKind::Invalid);
    });
}

#[test]
fn a_read_only_export_says_so_and_refuses_writes() {
    let Some(server) = Server::start(&["-r", "memory", "64M"]) else { return };
    on_a_shard(move |env| async move {
        let drive = attach(&env, &server.uri()).await;
        assert!(drive.info().read_only);
        let slices = smallvec![Buf::copy_of(&[1; 512]).freeze()];
        let outcome = drive.write(ByteOffset(0), slices, Durability::Cached).await;
        assert_eq!(outcome.result.unwrap_err().kind, IoErrorKind::ReadOnly);
        drive.flush().await.result.unwrap();
    });
}

#[test]
fn coarse_sectors_are_recognised() {
    let arguments = ["--filter=blocksize-policy", "memory", "64M", "blocksize-minimum=4096"];
    let Some(server) = Server::start(&arguments) else { return };
    on_a_shard(move |env| async move {
        let drive = attach(&env, &server.uri()).await;
        assert_eq!(drive.info().logical_sector, SectorSize::B4096);
    });
}

#[test]
fn several_shards_need_a_server_that_allows_several_connections() {
    let arguments = ["--filter=multi-conn", "memory", "64M", "multi-conn-mode=disable"];
    let Some(server) = Server::start(&arguments) else { return };
    on_a_shard(move |env| async move {
        let source = open(&env, &server.uri()).await.unwrap();
        let first = source.attach(&env).unwrap();
        let error = source.attach(&env).err().unwrap();
        assert_eq!(error.kind, ErrorKind::WrongKind);
        assert!(error.to_string().contains("multi-conn"), "{error}");
        drop(first);
        let again = Member::new(&env, source.attach(&env).unwrap());
        write(&again, 0, &[1; 512], Durability::Cached).await;
    });
}

#[test]
fn who_is_no_nbd_server_is_found_out() {
    on_a_shard(|env| async move {
        let error = open(&env, "nbd+unix:///?socket=/nowhere/socket").await.err().unwrap();
        assert_eq!(error.kind, ErrorKind::NotFound);
        // A server with another protocol sends another greeting.
        let listener = env.world().listen(&"127.0.0.1:0".parse().unwrap()).await.unwrap();
        let platform::Address::Tcp { port, .. } = listener.address() else { unreachable!() };
        let server = env.clone();
        env.spawn("something else", async move {
            let stream = listener.accept().await.unwrap().attach(&server).unwrap();
            stream
                .send(smallvec![Buf::copy_of(b"220 mail.example ESMTP\r\n").freeze()])
                .await
                .result
                .unwrap();
            while matches!(stream.receive(Buf::unpooled(ByteCount(512))).await.result, Ok(1..)) {}
        });
        let error = open(&env, &format!("nbd://127.0.0.1:{port}/x")).await.err().unwrap();
        assert_eq!(error.kind, ErrorKind::Unreachable);
        assert!(error.to_string().contains("127.0.0.1"), "{error}");
    });
}

#[test]
fn what_is_under_way_when_the_drive_is_dropped_is_still_answered() {
    let Some(server) = Server::start(&["--filter=delay", "memory", "64M", "rdelay=10ms"]) else {
        return;
    };
    on_a_shard(move |env| async move {
        let drive = attach(&env, &server.uri()).await;
        let read = drive.read(ByteOffset(0), smallvec![Buf::unpooled(ByteCount(4096))]);
        drop(drive);
        assert_eq!(read.await.result, Ok(4096));
    });
}
