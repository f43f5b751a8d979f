//! The folder of the tour: its drives, the state of its controller, and the report.
//!
//! **Invariant.** The tour writes to nothing that it has not made: it takes a folder that is new, or empty, or that an earlier tour made and cleared.
//! A controller's state is never in it but in `state` below it, which the tour makes.

use crate::failure::{Failure, Outcome};
use crate::output;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The file that says that a tour made the folder.
const MARK: &str = "made-by-softroc-quickstart";

/// See the [module](self).
pub struct Folder {
    root: PathBuf,
}

impl Folder {
    /// Makes the folder, or takes one that nobody else uses.
    ///
    /// # Errors
    /// When it is somebody's: a controller's state, a tour that was kept or cut off.
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
                return Err(Failure::refused(format!("{named} is no folder; give another --dir")));
            }
            Ok(_) => check_free(&root, dir)?,
        }
        let mark = root.join(MARK);
        std::fs::write(&mark, "This folder may be removed.\n").map_err(|error| cannot_make(dir, &error))?;
        let folder = Folder { root };
        make(&folder.state())?;
        make(&folder.drives())?;
        Ok(folder)
    }

    /// Where the tour's controller keeps its state.
    pub fn state(&self) -> PathBuf {
        self.root.join("state")
    }

    /// Where its drives lie.
    pub fn drives(&self) -> PathBuf {
        self.root.join("drives")
    }

    /// A file that stays.
    pub fn file(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Removes the drives and the state that was about them.
    pub fn clear(&self) {
        for path in [self.drives(), self.state()] {
            if let Err(error) = std::fs::remove_dir_all(&path) {
                output::say(&format!("softroc: cannot remove {}: {error}", path.display()));
            }
        }
    }
}

/// Whether a folder that is there is empty, or an earlier tour's that was cleared.
fn check_free(root: &Path, dir: &Path) -> Outcome {
    let named = dir.display();
    let mut entries = std::fs::read_dir(root).map_err(|error| cannot_make(dir, &error))?;
    if entries.next().is_none() {
        return Ok(());
    }
    if !root.join(MARK).exists() {
        let sentence = format!("{named} holds something that no tour made; give another --dir");
        return Err(Failure::refused(sentence));
    }
    let left = ["state", "drives"].into_iter().find(|name| root.join(name).exists());
    match left {
        None => Ok(()),
        Some(_) => Err(Failure::refused(format!(
            "{named} holds a tour that was kept, is under way, or was cut off; remove that folder when no controller runs there, or give another --dir"
        ))),
    }
}

/// Makes a folder that is not there.
fn make(path: &Path) -> Outcome {
    let made = std::fs::DirBuilder::new().mode(0o700).create(path);
    made.map_err(|error| cannot_make(path, &error))
}

fn cannot_make(path: &Path, error: &std::io::Error) -> Failure {
    Failure::refused(format!("cannot make the folder {}: {error}; give another --dir", path.display()))
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
        Folder::take(dir).err().expect("it is somebody's").to_string()
    }

    #[test]
    fn a_folder_is_taken_once_and_again_when_it_is_cleared() {
        let sandbox = sandbox("again");
        let dir = sandbox.join("tour");
        let folder = Folder::take(&dir).unwrap();
        assert!(folder.state().is_dir() && folder.drives().is_dir());
        assert!(refusal(&dir).contains("holds a tour that was kept"));
        std::fs::write(folder.file("report.html"), "r").unwrap();
        folder.clear();
        let again = Folder::take(&dir).unwrap();
        assert!(
            again.file("report.html").exists(),
            "the report of the tour before stays until it is replaced"
        );
        std::fs::remove_dir_all(&sandbox).unwrap();
    }

    #[test]
    fn what_a_tour_has_not_made_is_not_touched() {
        let sandbox = sandbox("others");
        let state = sandbox.join("softroc-data");
        std::fs::create_dir(&state).unwrap();
        std::fs::write(state.join("drives.toml"), "drives = []\n").unwrap();
        assert!(refusal(&state).contains("that no tour made"));
        let file = sandbox.join("file");
        std::fs::write(&file, "x").unwrap();
        assert!(refusal(&file).contains("is no folder"));
        let link = sandbox.join("link");
        std::os::unix::fs::symlink(&state, &link).unwrap();
        assert!(refusal(&link).contains("is no folder"), "nor is what a link leads to");
        assert_eq!(std::fs::read_dir(&state).unwrap().count(), 1);
        let empty = sandbox.join("empty");
        std::fs::create_dir(&empty).unwrap();
        Folder::take(&empty).unwrap();
        std::fs::remove_dir_all(&sandbox).unwrap();
    }
}
