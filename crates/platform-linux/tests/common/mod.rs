//! Common parts of the tests of this platform.
#![allow(dead_code, reason = "not every test file uses all of it")]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests access the system directly"
)]

use platform::{Env, IoOutcome, IoRequest, Member};
use platform_linux::{Settings, Shard};
use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use units::ByteCount;

/// A directory for one test, removed when dropped.
pub struct TestDir(PathBuf);

impl TestDir {
    pub fn new() -> TestDir {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("platform-linux-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        TestDir(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for TestDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A loop device over a file of 8 MiB.
pub struct Loop {
    pub path: String,
    _dir: TestDir,
}

impl Loop {
    /// `None`, with the reason printed, if this computer permits none.
    pub fn new(options: &[&str]) -> Option<Loop> {
        let dir = TestDir::new();
        let file = dir.file("backing");
        std::fs::File::create(&file).unwrap().set_len(8 << 20).unwrap();
        let output =
            Command::new("losetup").args(["--find", "--show"]).args(options).arg(&file).output();
        let path = match output {
            Ok(output) if output.status.success() => String::from_utf8(output.stdout).unwrap(),
            Ok(output) => {
                println!(
                    "skipped: no loop device: {}",
                    String::from_utf8_lossy(&output.stderr).trim()
                );
                return None;
            }
            Err(error) => {
                println!("skipped: losetup cannot be run: {error}");
                return None;
            }
        };
        Some(Loop { path: path.trim().to_owned(), _dir: dir })
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.path]).status();
    }
}

/// Runs a test's body on a shard.
pub fn on_a_shard<T: 'static, F: Future<Output = T> + 'static>(body: impl FnOnce(Env) -> F) -> T {
    let shard = Shard::new(&Settings::with_memory(ByteCount(64 << 20))).unwrap();
    let future = body(shard.env().clone());
    shard.run(future)
}

/// Creates a file drive of that size and attaches it.
pub async fn file_drive(env: &Env, path: &str, size: u64) -> Member {
    env.world().create_drive(path, ByteCount(size)).await.unwrap();
    let source = env.world().open_drive(path).await.unwrap();
    Member::new(env, source.attach(env).unwrap())
}

/// Performs one request.
pub async fn one(drive: &Member, request: IoRequest) -> IoOutcome {
    drive.start(request).await
}
