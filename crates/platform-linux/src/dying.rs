//! Processes that have ended and still hold resources.
//!
//! The kernel destroys a ring after its process has ended. Until then the ring keeps files and
//! sockets open, and their locks held. A controller that starts right after another was killed
//! would find its drives in use by a process that no longer exists, and so waits for them. It waits
//! briefly for its own rings as well.

use std::time::{Duration, Instant};

/// How long an ended process may hold a resource before it counts as in use.
const LONGEST: Duration = Duration::from_secs(10);

/// How long this process may hold a resource after closing it: its rings are destroyed late as
/// well.
const OWN: Duration = Duration::from_millis(500);

/// How long to wait for a resource that is busy without a visible holder: a lock disappears just
/// before its device is free, and the process just before both.
const UNSEEN: Duration = Duration::from_millis(100);

/// The interval between two attempts.
const PAUSE: Duration = Duration::from_millis(10);

/// Whether a process has ended, even if its parent has not reaped it.
pub(crate) fn is_dead(pid: u32) -> bool {
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        // PID (NAME) STATE …; NAME may contain anything, so STATE is after the last bracket.
        Ok(stat) => {
            let state =
                stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
            matches!(state, Some('Z' | 'X' | 'x'))
        }
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

/// The holder of a busy resource.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Holder {
    /// A process, which may have ended.
    Process(u32),
    /// A process that is alive, or may be.
    Living,
    /// No process: the remains of an ended one.
    Kernel,
    /// Unknown.
    Unknown,
}

impl Holder {
    /// How long to wait for the holder to release it.
    fn wait_limit(self) -> Duration {
        match self {
            Holder::Process(pid) if pid == std::process::id() => OWN,
            Holder::Process(pid) if is_dead(pid) => LONGEST,
            Holder::Kernel => LONGEST,
            Holder::Unknown => UNSEEN,
            Holder::Process(_) | Holder::Living => Duration::ZERO,
        }
    }
}

/// Repeats an attempt as long as an ended process is the cause of its failure. Blocks: for worker
/// threads.
pub(crate) fn outlive<T>(mut attempt: impl FnMut() -> Result<T, Holder>) -> Result<T, Holder> {
    let start = Instant::now();
    loop {
        let outcome = attempt();
        let wait_limit =
            outcome.as_ref().err().map_or(Duration::ZERO, |holder| holder.wait_limit());
        if start.elapsed() >= wait_limit {
            return outcome;
        }
        std::thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_living_are_not_dead_and_the_dead_are() {
        assert!(!is_dead(std::process::id()));
        let mut child = std::process::Command::new("true").spawn().expect("a process");
        let pid = child.id();
        while !is_dead(pid) {
            std::thread::sleep(PAUSE); // It becomes a zombie, which counts as ended.
        }
        child.wait().expect("it ended");
        assert!(is_dead(pid));
    }

    #[test]
    fn what_a_dead_process_holds_is_waited_for_and_what_a_living_one_holds_is_not() {
        let mut left = 3;
        let outlived = outlive(|| {
            left -= 1;
            match left {
                0 => Ok("free"),
                1 => Err(Holder::Kernel),
                _ => Err(Holder::Process(u32::MAX)),
            }
        });
        assert_eq!(outlived, Ok("free"));
        let mut looks = 0;
        let living = std::os::unix::process::parent_id();
        let held = outlive(|| {
            looks += 1;
            Err::<(), _>(Holder::Process(living))
        });
        assert_eq!((held, looks), (Err(Holder::Process(living)), 1));
        assert_eq!(outlive(|| Err::<(), _>(Holder::Living)), Err(Holder::Living));
    }
}
