//! Processes that are dead but not quite gone.
//!
//! The kernel takes a ring apart after its process has ended, and until then the ring holds on to files and
//! sockets, and with them to their locks. Whoever starts a controller right after one was killed would find
//! the drives held by a process that does not exist any more: so what such a process holds is waited for.
//! A drive that this very process has just let go is waited for a moment, for the same reason.

use std::time::{Duration, Instant};

/// How long a dead process may hold on to something before it counts as held.
const LONGEST: Duration = Duration::from_secs(10);

/// How long this process itself may hold on to something that it let go: its rings take their time as well.
const OWN: Duration = Duration::from_millis(500);

/// How long something may be busy without anybody to be seen who holds it: a lock goes a moment before the
/// device, and the process a moment before both.
const UNSEEN: Duration = Duration::from_millis(100);

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(10);

/// Whether a process has ended, be it that its parent has not taken notice yet.
pub(crate) fn is_dead(pid: u32) -> bool {
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        // PID (NAME) STATE …; the name may hold anything, so the state is what follows the last bracket.
        Ok(stat) => {
            let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
            matches!(state, Some('Z' | 'X' | 'x'))
        }
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

/// Who holds what cannot be had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Holder {
    /// That process, which may be dead.
    Process(u32),
    /// Somebody who lives, or may live.
    Somebody,
    /// No process at all: what is left of one.
    Nobody,
    /// It cannot be told.
    Unseen,
}

impl Holder {
    /// How long to wait for it to let go.
    fn patience(self) -> Duration {
        match self {
            Holder::Process(pid) if pid == std::process::id() => OWN,
            Holder::Process(pid) if is_dead(pid) => LONGEST,
            Holder::Nobody => LONGEST,
            Holder::Unseen => UNSEEN,
            Holder::Process(_) | Holder::Somebody => Duration::ZERO,
        }
    }
}

/// Tries until it works, as long as it fails because of a process that has ended. Blocks: for worker threads.
pub(crate) fn outlive<T>(mut attempt: impl FnMut() -> Result<T, Holder>) -> Result<T, Holder> {
    let start = Instant::now();
    loop {
        let outcome = attempt();
        let patience = outcome.as_ref().err().map_or(Duration::ZERO, |holder| holder.patience());
        if start.elapsed() >= patience {
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
            std::thread::sleep(PAUSE); // It becomes a zombie, which is dead.
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
                1 => Err(Holder::Nobody),
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
        assert_eq!(outlive(|| Err::<(), _>(Holder::Somebody)), Err(Holder::Somebody));
    }
}
