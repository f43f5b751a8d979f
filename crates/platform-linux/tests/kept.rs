//! Persistent memory: survives a kill, is exclusive, and is reserved completely or not at all.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests access the system directly"
)]

mod common;

use common::{TestDir, file_drive};
use platform::{Buf, Durability, Env, Error, ErrorKind, KeptMemory, KeptSize, OtherMemory};
use platform_linux::{Settings, Shard};
use smallvec::smallvec;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use units::{ByteCount, ByteOffset};

const SIZE: KeptSize = KeptSize::whole(4, ByteCount(128 << 10));
const CHILD: &str = "WORLD_REAL_KEPT";

/// A folder in memory for one test, removed when dropped.
struct Shm(PathBuf);

impl Shm {
    fn new() -> Shm {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Shm(format!("/dev/shm/platform-linux-{}-{number}", std::process::id()).into())
    }

    fn file(&self) -> PathBuf {
        self.0.join("cache.kept")
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

impl Drop for Shm {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs `body` on a shard with its persistent memory in `folder`.
fn with_folder<T: 'static>(folder: &Path, body: impl AsyncFnOnce(Env) -> T + 'static) -> T {
    let kept = Some(folder.to_owned());
    let shard = Shard::new(&Settings { kept, ..Settings::with_memory(ByteCount::MIB) }).unwrap();
    let env = shard.env().clone();
    shard.run(async move { body(env).await })
}

fn take(folder: &Path, size: Option<KeptSize>) -> Result<Option<KeptMemory>, Error> {
    with_folder(folder, async move |env| env.world().kept_memory("cache", size).await)
}

fn made(folder: &Path) -> KeptMemory {
    take(folder, Some(SIZE)).unwrap().unwrap()
}

fn refusal(folder: &Path) -> Error {
    take(folder, Some(SIZE)).expect_err("it is refused")
}

fn forget(folder: &Path) -> Result<(), Error> {
    with_folder(folder, async |env| env.world().forget_kept_memory("cache").await)
}

/// Not a test: the process that is killed. The variable says what it repeats, and where.
#[test]
fn work_until_killed() {
    let Ok(told) = std::env::var(CHILD) else { return };
    let (work, folder) = told.split_once(' ').unwrap();
    let (work, folder) = (work.to_owned(), PathBuf::from(folder));
    with_folder(&folder.clone(), async move |env| {
        println!("\nworking");
        loop {
            let mut memory = env.world().kept_memory("cache", Some(SIZE)).await.unwrap().unwrap();
            match work.as_str() {
                "store" => store_for_ever(&mut memory),
                "hold" => loop {
                    env.sleep(std::time::Duration::from_secs(3600)).await;
                },
                _ => env.world().forget_kept_memory("cache").await.unwrap(),
            }
        }
    });
}

/// Fills each half in turn with the number of a round, and then stores the number.
fn store_for_ever(memory: &mut KeptMemory) {
    let half = memory.bytes.len().as_usize() / 2;
    for round in 1.. {
        let at = (round % 2) as usize * half;
        memory.bytes.bytes_mut()[at..at + half].fill(round as u8);
        memory.words.store(3, round);
    }
}

fn start(work: &str, folder: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "work_until_killed", "--nocapture"]);
    command.env(CHILD, format!("{work} {}", folder.display()));
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut lines = lines.map_while(Result::ok);
    assert!(lines.any(|line| line == "working"), "it works");
    child
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn what_a_killed_process_stored_is_there_and_of_each_half_what_its_number_says() {
    let shm = Shm::new();
    for _ in 0..10 {
        let child = start("store", &shm.0);
        let words = KeptFile(shm.file());
        while words.word(3) < 1000 {
            std::thread::yield_now();
        }
        kill(child);
        let memory = take(&shm.0, None).unwrap().expect("it is there");
        assert!(memory.was_there);
        assert_eq!((memory.words.len(), memory.bytes.len()), (SIZE.words, SIZE.bytes));
        let round = memory.words.load(3);
        let half = memory.bytes.len().as_usize() / 2;
        let whole = &memory.bytes.bytes()[(round % 2) as usize * half..][..half];
        assert!(whole.iter().all(|byte| *byte == round as u8), "round {round}");
        assert!(round >= 1000, "round {round}: no visible store is undone");
        memory.words.store(3, 0); // so that the next round has another value
    }
}

/// The file as other processes see it, while a process has it.
struct KeptFile(PathBuf);

impl KeptFile {
    fn word(&self, index: usize) -> u64 {
        let Ok(content) = std::fs::read(&self.0) else { return 0 };
        u64::from_ne_bytes(content[4096 + index * 8..][..8].try_into().unwrap())
    }
}

#[test]
fn new_memory_is_zero_and_nobody_elses() {
    let shm = Shm::new();
    assert!(take(&shm.0, None).unwrap().is_none());
    assert!(!shm.0.exists(), "a query creates nothing");
    let mut memory = made(&shm.0);
    assert!(!memory.was_there);
    assert_eq!((memory.words.len(), memory.bytes.len()), (SIZE.words, SIZE.bytes));
    assert!((0..SIZE.words).all(|word| memory.words.load(word) == 0));
    assert!(memory.bytes.bytes().iter().all(|byte| *byte == 0));
    memory.bytes.bytes_mut().fill(1);
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&shm.0), mode(&shm.file())), (0o700, 0o600));
    assert_eq!(shm.names(), ["cache.kept"]);
    let file = std::fs::metadata(shm.file()).unwrap();
    assert_eq!(file.len(), (4096 + 4096 + (128 << 10)), "a header, words, bytes");
    assert_eq!(file.blocks() * 512, file.len(), "all of it is reserved");
    drop(memory);
    let again = take(&shm.0, Some(KeptSize::whole(1, ByteCount(1)))).unwrap().unwrap();
    assert!(again.was_there);
    assert_eq!(
        (again.words.len(), again.bytes.len()),
        (SIZE.words, SIZE.bytes),
        "existing memory keeps its size"
    );
}

#[test]
fn memory_of_no_words_or_no_bytes_is_memory() {
    for (words, bytes) in [(0, 1), (1, 0), (0, 0), (513, 4097)] {
        let shm = Shm::new();
        let size = KeptSize::whole(words, ByteCount(bytes));
        drop(take(&shm.0, Some(size)).unwrap().unwrap());
        let mut memory = take(&shm.0, None).unwrap().unwrap();
        assert_eq!((memory.words.len(), memory.bytes.len().0), (words, bytes));
        assert_eq!(memory.bytes.bytes().as_ptr() as usize % 4096, 0);
        (0..words).for_each(|word| memory.words.store(word, u64::MAX));
        assert!(
            memory.bytes.bytes().iter().all(|byte| *byte == 0),
            "words and bytes do not overlap"
        );
        memory.bytes.bytes_mut().fill(1);
        assert!((0..words).all(|word| memory.words.load(word) == u64::MAX));
    }
}

#[test]
fn one_process_has_it_alone_and_a_dead_one_is_no_obstacle() {
    let shm = Shm::new();
    let holder = start("hold", &shm.0);
    while !shm.file().exists() {
        std::thread::yield_now();
    }
    let error = refusal(&shm.0);
    assert_eq!(error.kind, ErrorKind::InUse);
    let expected = format!(
        "{} is in use by another softroc serve (pid {}); stop that one, or give another folder \
            with '--cache-folder DIR'",
        shm.file().display(),
        holder.id()
    );
    assert_eq!(error.to_string(), expected);
    assert_eq!(
        forget(&shm.0).unwrap_err().kind,
        ErrorKind::InUse,
        "no other process can remove it"
    );
    kill(holder);
    assert!(made(&shm.0).was_there);
}

#[test]
fn it_is_held_as_long_as_any_of_it_is_viewed() {
    let shm = Shm::new();
    let memory = made(&shm.0);
    let piece = memory.bytes.carve(ByteCount(4096)).nth(3).unwrap().freeze();
    assert_eq!(refusal(&shm.0).kind, ErrorKind::InUse);
    drop(memory.words);
    assert_eq!(refusal(&shm.0).kind, ErrorKind::InUse);
    std::thread::spawn(move || drop(piece)).join().unwrap();
    let memory = made(&shm.0);
    drop(memory.bytes);
    assert_eq!(refusal(&shm.0).kind, ErrorKind::InUse, "its words are viewed");
}

#[test]
fn without_room_nothing_is_made_and_the_error_says_how_much_there_is() {
    let shm = Shm::new();
    for bytes in [ByteCount(1 << 50), ByteCount(u64::MAX)] {
        let error = take(&shm.0, Some(KeptSize::whole(1, bytes))).unwrap_err();
        assert_eq!(error.kind, ErrorKind::OutOfSpace);
        let text = error.to_string();
        assert!(
            text.contains("not enough memory") && text.contains("give a smaller '--cache'"),
            "{text}"
        );
        assert!(shm.names().is_empty());
    }
    let error = take(&shm.0, Some(KeptSize::whole(1, ByteCount(1 << 50)))).unwrap_err().to_string();
    assert!(error.contains("needed") && error.contains("free"), "{error}");
}

#[test]
fn a_folder_that_is_not_in_memory_is_refused() {
    for size in [Some(SIZE), None] {
        let error = take(Path::new("/sys/softroc/cache"), size).unwrap_err();
        assert_eq!(error.kind, ErrorKind::WrongKind);
        let text = error.to_string();
        assert!(
            text.contains("/sys/softroc/cache") && text.contains("'--cache-folder DIR'"),
            "{text}"
        );
    }
    let shard = Shard::new(&Settings::with_memory(ByteCount::MIB)).unwrap();
    let env = shard.env().clone();
    shard.run(async move {
        let error = env.world().kept_memory("cache", Some(SIZE)).await.unwrap_err();
        assert!(error.to_string().contains("'--cache-folder DIR'"), "{error}");
        env.world().forget_kept_memory("cache").await.unwrap();
    });
}

#[test]
fn what_is_not_whole_is_refused_and_stays() {
    let shm = Shm::new();
    let mut memory = made(&shm.0);
    memory.bytes.bytes_mut().fill(9);
    drop(memory);
    let whole = std::fs::read(shm.file()).unwrap();
    let spoilt = (0..40).map(|at| {
        let mut content = whole.clone();
        content[at] ^= 1 << (at % 8);
        content
    });
    let short = [0, 1, 39, 4096, whole.len() - 1].map(|len| whole[..len].to_vec());
    for content in spoilt.chain(short) {
        std::fs::write(shm.file(), &content).unwrap();
        let error = refusal(&shm.0);
        assert_eq!(error.kind, ErrorKind::WrongKind, "{error}");
        assert!(error.to_string().contains(&format!("'rm {}'", shm.file().display())), "{error}");
        assert!(
            std::fs::read(shm.file()).unwrap() == content,
            "nothing is deleted or repaired automatically"
        );
    }
    std::fs::write(shm.file(), &whole).unwrap();
    assert_eq!(made(&shm.0).bytes.bytes()[7], 9);
}

#[test]
fn a_file_of_another_version_says_so() {
    let shm = Shm::new();
    drop(made(&shm.0));
    let mut content = std::fs::read(shm.file()).unwrap();
    content[8] = 2;
    std::fs::write(shm.file(), &content).unwrap();
    let error = refusal(&shm.0).to_string();
    assert!(error.contains("has version 2 of another SoftROC (this one supports 1)"), "{error}");
}

#[test]
fn what_has_the_name_and_is_no_file_of_ours_is_refused() {
    let shm = Shm::new();
    drop(made(&shm.0));
    let elsewhere = shm.0.join("elsewhere");
    std::fs::rename(shm.file(), &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, shm.file()).unwrap();
    let error = refusal(&shm.0);
    assert_eq!(error.kind, ErrorKind::Denied);
    assert!(error.to_string().contains("is a symbolic link"), "{error}");
    std::fs::remove_file(shm.file()).unwrap();
    assert!(Command::new("mkfifo").arg(shm.file()).status().unwrap().success());
    assert!(refusal(&shm.0).to_string().contains("is not a file"));
    std::fs::remove_file(shm.file()).unwrap();
    std::fs::rename(&elsewhere, shm.file()).unwrap();
    assert!(made(&shm.0).was_there);
    if std::os::unix::fs::chown(shm.file(), Some(65_534), None).is_err() {
        println!("skipped: only root can give a file away");
        return;
    }
    assert!(refusal(&shm.0).to_string().contains("belongs to another user (uid 65534)"));
    std::os::unix::fs::chown(&shm.0, Some(65_534), None).unwrap();
    let error = refusal(&shm.0).to_string();
    assert!(
        error.contains("the cache folder") && error.contains("belongs to another user"),
        "{error}"
    );
}

#[test]
fn a_kill_while_memory_is_made_and_forgotten_leaves_it_whole_or_not_at_all() {
    let shm = Shm::new();
    for round in 0..20 {
        let child = start("make", &shm.0);
        while shm.file().exists() != (round % 2 == 0) {
            std::thread::yield_now();
        }
        kill(child);
        let names = if shm.0.exists() { shm.names() } else { Vec::new() };
        assert!(names.iter().all(|name| name == "cache.kept"), "{names:?}");
        let whole = take(&shm.0, None).unwrap();
        assert_eq!(whole.is_some(), !names.is_empty());
        drop(whole);
        forget(&shm.0).unwrap();
    }
}

#[test]
fn what_is_forgotten_may_be_viewed_on_and_its_name_is_free() {
    let shm = Shm::new();
    forget(&shm.0).expect("there was none");
    assert!(!shm.0.exists());
    let mut old = made(&shm.0);
    old.words.store(0, 1);
    forget(&shm.0).unwrap();
    assert!(shm.names().is_empty());
    forget(&shm.0).expect("it was removed before");
    let mut new = made(&shm.0);
    assert!(!new.was_there);
    new.words.store(0, 2);
    new.bytes.bytes_mut().fill(2);
    old.bytes.bytes_mut().fill(1);
    assert_eq!((old.words.load(0), new.words.load(0), new.bytes.bytes()[0]), (1, 2, 2));
    drop(new);
    forget(&shm.0).expect("memory without views can be removed as well");
    assert!(take(&shm.0, None).unwrap().is_none());
    drop(old);
}

#[test]
fn names_that_would_leave_the_folder_are_refused() {
    let shm = Shm::new();
    with_folder(&shm.0, async |env| {
        for name in ["", "..", "../cache", "a/b", ".hidden", "a\0b"] {
            let error = env.world().kept_memory(name, Some(SIZE)).await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::BadName, "{name}");
            let error = env.world().forget_kept_memory(name).await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::BadName, "{name}");
        }
    });
}

#[test]
fn drives_write_from_it_and_read_into_it() {
    let (shm, dir) = (Shm::new(), TestDir::new());
    let file = dir.file("drive");
    with_folder(&shm.0, async move |env| {
        let drive = file_drive(&env, &file, 1 << 20).await;
        let memory = env.world().kept_memory("cache", Some(SIZE)).await.unwrap().unwrap();
        let mut pieces = memory.bytes.carve(ByteCount(8192));
        let (mut from, into): (Buf, Buf) = (pieces.next().unwrap(), pieces.next().unwrap());
        from.bytes_mut().fill(5);
        let written =
            drive.write(ByteOffset(4096), smallvec![from.freeze()], Durability::Durable).await;
        written.result.unwrap();
        let read = drive.read(ByteOffset(4096), smallvec![into]).await;
        assert_eq!(read.buffers[0].bytes(), [5; 8192]);
    });
    assert_eq!(
        made(&shm.0).bytes.bytes()[8192..16_384],
        [5; 8192],
        "the read filled persistent memory"
    );
}

#[test]
fn every_shard_and_every_process_of_a_boot_names_the_same_one() {
    let boot = || with_folder(Path::new("/dev/shm/none"), async |env| env.world().boot_id());
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let known = u128::from_str_radix(&text.trim().replace('-', ""), 16).unwrap();
    assert_eq!((boot(), boot()), (known, known));
}

/// A memory file system of that type, mounted on a test folder.
struct Mount(TestDir);

impl Mount {
    fn new(kind: &str, options: &str) -> Option<Mount> {
        let dir = TestDir::new();
        let output = Command::new("mount")
            .args(["-t", kind, "-o", options, "none"])
            .arg(dir.path())
            .output();
        match output {
            Ok(output) if output.status.success() => Some(Mount(dir)),
            _ => {
                println!("skipped: {kind} cannot be mounted");
                None
            }
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_file_system_is_told_and_one_without_reservations_serves() {
    if let Some(small) = Mount::new("tmpfs", "size=256k,mode=700") {
        let first = made(small.0.path());
        let error = with_folder(small.0.path(), async |env| {
            env.world().kept_memory("second", Some(SIZE)).await
        });
        let text = error.unwrap_err().to_string();
        assert!(text.contains("136 KiB needed, 120 KiB free"), "{text}");
        let names = std::fs::read_dir(small.0.path()).unwrap().count();
        assert_eq!(names, 1, "the file that did not fit is removed");
        drop(first);
    }
    if let Some(ram) = Mount::new("ramfs", "mode=700") {
        let memory = made(ram.0.path());
        memory.words.store(1, 7);
        assert_eq!(refusal(ram.0.path()).kind, ErrorKind::InUse);
        drop(memory);
        assert_eq!(made(ram.0.path()).words.load(1), 7);
    }
    if let Some(huge) = Mount::new("hugetlbfs", "mode=700") {
        match take(huge.0.path(), Some(SIZE)) {
            Ok(memory) => memory.unwrap().words.store(1, 7),
            Err(error) => {
                println!("skipped: no huge pages: {error}");
                assert_eq!(error.kind, ErrorKind::OutOfSpace);
                return;
            }
        }
        assert_eq!(made(huge.0.path()).words.load(1), 7);
    }
}

fn others(folder: &Path) -> Vec<OtherMemory> {
    with_folder(folder, async |env| env.world().other_memories("cache").await).unwrap()
}

fn forget_other(folder: &Path, other: &Path) -> Result<(), Error> {
    let other = other.display().to_string();
    with_folder(folder, async move |env| env.world().forget_other_memory("cache", &other).await)
}

/// Controllers with other state folders have folders next to this one. Memory that they left is
/// listed and can be removed by name; memory in use stays.
#[test]
fn what_other_processes_left_is_listed_and_removed_by_name() {
    let shm = Shm::new();
    let (own, left, held, spoilt) =
        (shm.0.join("own"), shm.0.join("left"), shm.0.join("held"), shm.0.join("spoilt"));
    drop(made(&own));
    made(&left).words.store(2, 77);
    let child = start("hold", &held);
    std::fs::create_dir_all(&spoilt).unwrap();
    std::fs::write(spoilt.join("cache.kept"), [7; 4096]).unwrap();
    while others(&own).iter().all(|other| !other.in_use) {
        std::thread::yield_now();
    }
    let listed = others(&own);
    let names: Vec<&str> = listed.iter().map(|other| other.name.as_str()).collect();
    let file = |folder: &Path| folder.join("cache.kept");
    assert_eq!(names, [&held, &left, &spoilt].map(|folder| file(folder).display().to_string()));
    assert!(listed[0].in_use && !listed[1].in_use);
    assert_eq!(listed[1].words, Ok(vec![0, 0, 77, 0]));
    assert!(listed[1].len >= SIZE.bytes);
    assert!(
        listed[2].words.as_ref().is_err_and(|why| why.contains("not persistent memory of SoftROC")),
        "{listed:?}"
    );
    assert_eq!(forget_other(&own, &file(&held)).unwrap_err().kind, ErrorKind::InUse);
    assert_eq!(forget_other(&own, &file(&own)).unwrap_err().kind, ErrorKind::NotFound);
    assert_eq!(forget_other(&own, Path::new("/etc/passwd")).unwrap_err().kind, ErrorKind::NotFound);
    forget_other(&own, &file(&left)).unwrap();
    forget_other(&own, &file(&spoilt)).unwrap();
    assert!(!left.exists() && !spoilt.exists() && file(&own).exists());
    kill(child);
}

/// Only the first bytes take memory. More are reserved on request, and stay so for the next
/// process.
#[test]
fn bytes_are_reserved_in_steps() {
    let shm = Shm::new();
    let size = KeptSize { reserved: ByteCount(16 << 10), ..SIZE };
    let taken = || std::fs::metadata(shm.file()).unwrap().blocks() * 512;
    let first = with_folder(&shm.0, async move |env| {
        let mut memory = env.world().kept_memory("cache", Some(size)).await.unwrap().unwrap();
        assert_eq!((memory.reserved, memory.bytes.len()), (size.reserved, SIZE.bytes));
        memory.bytes.bytes_mut()[..16 << 10].fill(1);
        memory
    });
    assert_eq!(taken(), 4096 + 4096 + (16 << 10));
    assert_eq!(std::fs::metadata(shm.file()).unwrap().len(), 4096 + 4096 + SIZE.bytes.0);
    drop(first);
    let second = with_folder(&shm.0, async move |env| {
        let mut memory = env.world().kept_memory("cache", None).await.unwrap().unwrap();
        assert_eq!(memory.reserved, size.reserved);
        memory.space.reserve(ByteCount(64 << 10)).await.unwrap();
        memory.space.reserve(ByteCount(4096)).await.unwrap();
        assert!(memory.bytes.bytes()[16 << 10..64 << 10].iter().all(|byte| *byte == 0));
        memory.bytes.bytes_mut()[16 << 10..64 << 10].fill(2);
        memory
    });
    assert_eq!(taken(), 4096 + 4096 + (64 << 10));
    drop(second);
    let memory = take(&shm.0, None).unwrap().unwrap();
    assert_eq!(memory.reserved, ByteCount(64 << 10));
    assert_eq!((memory.bytes.bytes()[0], memory.bytes.bytes()[(64 << 10) - 1]), (1, 2));
}

/// Files of earlier versions have no number of reserved bytes: they have all of them.
#[test]
fn a_file_of_an_earlier_version_is_reserved_as_a_whole() {
    let shm = Shm::new();
    drop(made(&shm.0));
    let file = std::fs::File::options().write(true).open(shm.file()).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[0; 8], 5 * 8).unwrap();
    drop(file);
    let memory = take(&shm.0, None).unwrap().unwrap();
    assert_eq!((memory.was_there, memory.reserved), (true, SIZE.bytes));
}
