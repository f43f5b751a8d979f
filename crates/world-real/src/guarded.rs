//! Folders and files that no other user of this machine can change.
//!
//! # Fault model
//! - Another user may have made, renamed or replaced what has an expected name, also between two looks. So nothing is judged by its path:
//!   it is opened relative to a folder that is open, links not followed, and judged by what the open file is.
//! - Root and this user's own processes are trusted.

use rustix::fs::Stat;

/// The permissions of others, the group's among them, to write.
const WRITE_OF_OTHERS: u32 = 0o022;

/// Whether what belongs to that user is changed by nobody but root or this user.
pub(crate) fn is_trusted(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw()
}

/// Why another user can change what `stat` describes: the rest of a sentence that begins with its path.
pub(crate) fn open_to_others(stat: &Stat) -> Option<String> {
    if !is_trusted(stat.st_uid) {
        return Some(format!(
            "belongs to another user (uid {}; expected uid {} or root)",
            stat.st_uid,
            rustix::process::geteuid().as_raw()
        ));
    }
    let mode = stat.st_mode & 0o7777;
    (mode & WRITE_OF_OTHERS != 0).then(|| {
        format!("can be written by other users (mode {mode:04o}; expected no w for group and others)")
    })
}
