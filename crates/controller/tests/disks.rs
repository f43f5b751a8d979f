//! Volumes attached as disks of the host: requests to the kernel, state that survives, and
//! refusals.

use crate::common::Bench;
use controller::{
    AttachPolicy, Command, DiskAnswer, DiskInfo, DiskKind, DiskMaker, DiskRequest, DiskState,
    DiskVolume, Disks, Error, ErrorKind, Reply, ReshapeVolume, SetPolicy, SetTask,
};
use std::sync::{Arc, Mutex};

/// A kernel stub that does what is requested: the last request, and its disks.
#[derive(Default)]
struct Kernel {
    looked: Mutex<Vec<DiskVolume>>,
    disks: Mutex<Vec<DiskInfo>>,
    refuses: Mutex<Option<Error>>,
}

impl Disks for Kernel {
    fn ask(&self, request: DiskRequest, answer: DiskAnswer) {
        let mut disks = self.disks.lock().unwrap();
        match request {
            DiskRequest::Look(volumes) => *self.looked.lock().unwrap() = volumes,
            DiskRequest::Attach { volume, read_only, by } => {
                if let Some(error) = self.refuses.lock().unwrap().clone() {
                    return answer(Err(error));
                }
                let way = if by == DiskKind::Ublk { "ublkb" } else { "nbd" };
                let device = format!("/dev/{way}{}", disks.len());
                disks.push(DiskInfo {
                    device,
                    links: vec![format!("/dev/softroc/{}", volume.name)],
                    volume: Some(volume.name),
                    uuid: volume.uuid,
                    read_only,
                    state: DiskState::Connected,
                    users: Vec::new(),
                });
            }
            DiskRequest::Detach { device, force } => {
                assert!(!force, "no forced detach was requested");
                disks.retain(|disk| disk.device != device);
            }
        }
        answer(Ok(disks.clone()));
    }
}

fn bench(seed: u64, kernel: &Arc<Kernel>) -> Bench {
    let mut bench = Bench::new(seed, 2, 3);
    bench.disks = DiskMaker(Some(kernel.clone()));
    bench.boot(&[]);
    bench.create("data", "raid5", &["a", "b", "c"]);
    bench.settle("data");
    bench
}

fn attach(volume: &str, read_only: bool) -> Command {
    Command::VolumeAttach { volume: volume.into(), read_only, by: DiskKind::Nbd }
}

fn detach(volume: &str) -> Command {
    Command::VolumeDetach { volume: volume.into(), force: false }
}

fn wish(attach: AttachPolicy) -> Command {
    Command::VolumePolicy(SetPolicy {
        volume: "data".into(),
        attach: Some(attach),
        ..SetPolicy::default()
    })
}

fn wished(kernel: &Kernel) -> Vec<(String, AttachPolicy)> {
    let looked = kernel.looked.lock().unwrap();
    looked.iter().map(|volume| (volume.name.clone(), volume.policy)).collect()
}

#[test]
fn a_volume_becomes_a_disk_and_is_told_as_one_until_it_is_none() {
    let kernel = Arc::new(Kernel::default());
    let mut bench = bench(1, &kernel);
    let Ok(Reply::Disk { disk, .. }) = bench.ask(attach("data", true)) else { panic!("attached") };
    assert_eq!((disk.device.as_str(), disk.read_only), ("/dev/nbd0", true));
    assert_eq!(bench.show("data").disk.as_ref(), Some(&*disk));
    let Ok(Reply::Disks { disks }) = bench.ask(Command::DiskList {}) else {
        panic!("the disk is listed")
    };
    assert_eq!(disks, [*disk.clone()]);
    let Ok(Reply::Disk { disk: twice, notes }) = bench.ask(attach("data", true)) else {
        panic!("the reply lists disks")
    };
    assert_eq!(
        (&twice, notes.as_slice()),
        (&disk, &["'data' is attached as /dev/nbd0 already".to_owned()][..])
    );
    let other = bench.refused(ErrorKind::InUse, attach("data", false));
    assert!(
        other.contains("read-only; to change that, first run 'softroc detach data'"),
        "{other}"
    );
    // Any of its names is accepted.
    for name in ["/dev/nbd0", "/dev/softroc/data", "data", disk.uuid.as_str()] {
        assert_eq!(bench.ask(detach(name)), Ok(Reply::Done { notes: Vec::new() }), "{name}");
        assert_eq!(bench.show("data").disk, None);
        bench.ask(attach("data", false)).unwrap();
    }
    bench.ask(detach("data")).unwrap();
    let by_ublk =
        Command::VolumeAttach { volume: "data".into(), read_only: false, by: DiskKind::Ublk };
    let Ok(Reply::Disk { disk, .. }) = bench.ask(by_ublk) else { panic!("attached") };
    assert_eq!(disk.device, "/dev/ublkb0");
    let looked = kernel.looked.lock().unwrap()[0].clone();
    assert_eq!(
        (looked.strip_bytes, looked.stripe_bytes),
        (64 << 10, 128 << 10),
        "the request to the kernel"
    );
    bench.ask(detach("data")).unwrap();
    bench.refused(ErrorKind::NotFound, detach("data"));
    bench.refused(ErrorKind::NotFound, detach("/dev/nbd7"));
    bench.refused(ErrorKind::NotFound, attach("nothing", false));
}

#[test]
fn what_the_kernel_refuses_is_told() {
    let kernel = Arc::new(Kernel::default());
    let mut bench = bench(2, &kernel);
    *kernel.refuses.lock().unwrap() =
        Some(Error::new(ErrorKind::Unavailable, "run 'modprobe nbd'"));
    assert_eq!(bench.refused(ErrorKind::Unavailable, attach("data", false)), "run 'modprobe nbd'");
    assert_eq!(bench.show("data").disk, None);
}

#[test]
fn what_is_wished_is_kept_over_a_kill_and_only_of_volumes_that_are_served() {
    let kernel = Arc::new(Kernel::default());
    let mut bench = bench(3, &kernel);
    bench.wait(2);
    assert_eq!(wished(&kernel), [("data".to_owned(), AttachPolicy::Off)]);
    bench.ask(wish(AttachPolicy::ReadOnly)).unwrap();
    bench.restart(&[]);
    bench.wait(2);
    assert_eq!(wished(&kernel), [("data".to_owned(), AttachPolicy::ReadOnly)]);
    bench.ask(wish(AttachPolicy::On)).unwrap();
    let show = bench.show("data");
    let policy =
        show.policies.iter().find(|policy| policy.name == "attach").expect("the disk is listed");
    assert_eq!(policy.current, "on");
    // A disk detached by an operator returns at the next start, and a note says so.
    bench.ask(attach("data", false)).unwrap();
    let Ok(Reply::Done { notes }) = bench.ask(detach("data")) else { panic!("detached") };
    assert!(notes[0].contains("softroc volume set data --attach off"), "{notes:?}");
    bench.ask(wish(AttachPolicy::Off)).unwrap();
    bench.restart(&[]);
    bench.wait(2);
    assert_eq!(wished(&kernel), [("data".to_owned(), AttachPolicy::Off)]);
    bench.ask(Command::VolumeDelete { volume: "data".into(), disconnect_hosts: false }).unwrap();
    bench.wait(2);
    assert_eq!(wished(&kernel), []);
}

#[test]
fn a_wish_reaches_whoever_makes_disks_before_it_is_answered() {
    // A detach and an attach within a second were missed: the detached disk did not return.
    let kernel = Arc::new(Kernel::default());
    let mut bench = bench(5, &kernel);
    for policy in [AttachPolicy::On, AttachPolicy::Off, AttachPolicy::ReadOnly, AttachPolicy::Off] {
        bench.ask(wish(policy)).unwrap();
        assert_eq!(wished(&kernel), [("data".to_owned(), policy)]);
    }
}

/// A disk has a UUID and a size: a reshape keeps the UUID, and the kernel is notified of the new
/// size. An attached volume could not be reshaped, as the kernel was not notified. During the
/// reshape the kernel keeps the old size, so that a restarted controller finds its disk; it gets
/// the new size at the end.
#[test]
fn a_volume_that_is_a_disk_goes_to_another_layout_and_its_disk_hears_of_its_size() {
    let kernel = Arc::new(Kernel::default());
    let mut bench = bench(6, &kernel);
    bench.add_drives(&["d"], crate::common::DRIVE);
    bench.ask(attach("data", false)).unwrap();
    let heard = || {
        kernel.looked.lock().unwrap().first().map(|volume| (volume.capacity_bytes, volume.number))
    };
    bench.wait(2);
    let (before, _) = heard().expect("the volume is online");
    let order =
        ReshapeVolume { volume: "data".into(), add: vec!["d".into()], ..ReshapeVolume::default() };
    let Ok(Reply::Reshape { reshape, notes }) = bench.ask(Command::VolumeReshape(order)) else {
        panic!("the reshape begins")
    };
    assert!(notes.iter().any(|note| note.starts_with("/dev/nbd0 gets the new size")), "{notes:?}");
    let task = crate::reshape::task(&mut bench).task;
    let limit_bytes_per_s = Some(256 << 10);
    bench.ask(Command::TaskSet(SetTask { task, share_percent: None, limit_bytes_per_s })).unwrap();
    let mut sizes = Vec::new();
    for _ in 0..200 {
        bench.wait(1);
        sizes.extend(heard().map(|(size, _)| size));
        if bench.show("data").reshape.is_none() {
            break;
        }
    }
    bench.wait(2);
    assert!(sizes.contains(&before), "the disk stays attached during the reshape: {sizes:?}");
    let served = bench.shards[0].volume_named("data").expect("the volume is online");
    let number = u64::from(served.spec().id.0);
    assert_eq!(heard(), Some((reshape.to.capacity_bytes, number)));
    assert!(reshape.to.capacity_bytes > before);
}

#[test]
fn a_controller_that_nobody_makes_disks_for_says_so() {
    let mut bench = Bench::new(4, 2, 3);
    bench.boot(&[]);
    bench.create("data", "raid5", &["a", "b", "c"]);
    for command in [attach("data", false), wish(AttachPolicy::On)] {
        let why = bench.refused(ErrorKind::Unavailable, command);
        assert!(why.contains("hosts reach them over NBD"), "{why}");
    }
}
