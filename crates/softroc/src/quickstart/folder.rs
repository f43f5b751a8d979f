//! The folder of the tour: its drives, the state of its controller, and the report.
//!
//! **Invariant.** The tour changes only what it has made: its folder must be new, empty, or made
//! and cleared by an earlier tour. The controller's state is in the subfolder `state`.

use crate::failure::{Failure, Outcome};
use crate::output;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The marker file of a folder that a tour made.
const MARK: &str = "made-by-softroc-quickstart";

/// See the [module](self).
pub struct Folder {
    root: PathBuf,
}

impl Folder {
    /// Creates the folder, or takes an unused one.
    ///
    /// # Errors
    /// If it is in use: by a controller's state, or a kept or interrupted tour.
    pub fn take(dir: &Path) -> Outcome<Folder> {
        let root = std::path::absolute(dir).map_err(Failure::failed)?;
        let named = dir.display();
        match std::fs::symlink_metadata(&root) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                if let Some(parent) = root.parent() {
                    std::fs::create_dir_all(parent).map_err(|error| cannot_make(dir, &error))?;
                }
                make(&root)?;
            }
            Err(error) => return Err(cannot_make(dir, &error)),
            Ok(there) if !there.is_dir() => {
                return Err(Failure::refused(format!(
                    "{named} is not a folder; give another --dir"
                )));
            }
            Ok(_) => check_free(&root, dir)?,
        }
        let mark = root.join(MARK);
        std::fs::write(&mark, "This folder may be removed.\n")
            .map_err(|error| cannot_make(dir, &error))?;
        let folder = Folder { root };
        make(&folder.state())?;
        make(&folder.drives())?;
        Ok(folder)
    }

    /// The state folder of the tour's controller.
    pub fn state(&self) -> PathBuf {
        self.root.join("state")
    }

    /// The folder of its drives.
    pub fn drives(&self) -> PathBuf {
        self.root.join("drives")
    }

    /// A file that stays after the tour.
    pub fn file(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Removes the drives and the controller's state.
    pub fn clear(&self) {
        for path in [self.drives(), self.state()] {
            if let Err(error) = std::fs::remove_dir_all(&path) {
                output::say(&format!("softroc: cannot remove {}: {error}", path.display()));
            }
        }
    }
}

/// Checks that an existing folder is empty, or that an earlier tour cleared it.
fn check_free(root: &Path, dir: &Path) -> Outcome {
    let named = dir.display();
    let mut entries = std::fs::read_dir(root).map_err(|error| cannot_make(dir, &error))?;
    if entries.next().is_none() {
        return Ok(());
    }
    if !root.join(MARK).exists() {
        let sentence = format!("{named} contains files that are not of a tour; give another --dir");
        return Err(Failure::refused(sentence));
    }
    let left = ["state", "drives"].into_iter().find(|name| root.join(name).exists());
    match left {
        None => Ok(()),
        Some(_) => Err(Failure::refused(format!(
            "{named} contains a kept, running or interrupted tour; remove the folder if no \
             controller runs there, or give another --dir"
        ))),
    }
}

/// Creates a folder that does not exist.
fn make(path: &Path) -> Outcome {
    let made = std::fs::DirBuilder::new().mode(0o700).create(path);
    made.map_err(|error| cannot_make(path, &error))
}

fn cannot_make(path: &Path, error: &std::io::Error) -> Failure {
    Failure::refused(format!(
        "cannot create the folder {}: {error}; give another --dir",
        path.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sandbox(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("softroc-tour-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    fn refusal(dir: &Path) -> String {
        Folder::take(dir).err().expect("it is in use").to_string()
    }

    #[test]
    fn a_folder_is_taken_once_and_again_when_it_is_cleared() {
        let sandbox = sandbox("again");
        let dir = sandbox.join("tour");
        let folder = Folder::take(&dir).unwrap();
        assert!(folder.state().is_dir() && folder.drives().is_dir());
        assert!(refusal(&dir).contains("contains a kept, running or interrupted tour"));
        std::fs::write(folder.file("report.html"), "r").unwrap();
        folder.clear();
        let again = Folder::take(&dir).unwrap();
        assert!(
            again.file("report.html").exists(),
            "the report of the previous tour stays until it is replaced"
        );
        std::fs::remove_dir_all(&sandbox).unwrap();
    }

    #[test]
    fn what_a_tour_has_not_made_is_not_touched() {
        let sandbox = sandbox("others");
        let state = sandbox.join("softroc-data");
        std::fs::create_dir(&state).unwrap();
        std::fs::write(state.join("drives.toml"), "drives = []\n").unwrap();
        assert!(refusal(&state).contains("that are not of a tour"));
        let file = sandbox.join("file");
        std::fs::write(&file, "x").unwrap();
        assert!(refusal(&file).contains("is not a folder"));
        let link = sandbox.join("link");
        std::os::unix::fs::symlink(&state, &link).unwrap();
        assert!(refusal(&link).contains("is not a folder"), "a link to a folder is refused too");
        assert_eq!(std::fs::read_dir(&state).unwrap().count(), 1);
        let empty = sandbox.join("empty");
        std::fs::create_dir(&empty).unwrap();
        Folder::take(&empty).unwrap();
        std::fs::remove_dir_all(&sandbox).unwrap();
    }
}
