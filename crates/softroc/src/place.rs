//! The location of a controller's state.
//!
//! The first of: `--state`; the variable `SOFTROC_STATE`; the systemd state directory
//! (`StateDirectory=softroc`: `/var/lib/softroc`); the folder `./softroc-data`, if it exists.
//! Otherwise `serve` creates `./softroc-data`, and all other commands use `/var/lib/softroc`. So
//! commands find the service from any folder, and a manually started controller in its own folder.

use crate::cli::{Cli, Command, Remote};
use crate::failure::{Failure, Outcome};
use std::path::{Path, PathBuf};

/// The state folder of a manually started controller.
pub const BY_HAND: &str = "./softroc-data";

/// The state folder of the service.
pub const OF_THE_SERVICE: &str = "/var/lib/softroc";

/// The state folder.
pub fn state(cli: &Cli) -> PathBuf {
    let serves = matches!(cli.command, Command::Serve(_));
    named(cli).unwrap_or_else(|| found(serves, Path::is_dir))
}

/// The folder for results of measurements: the given state folder, or an existing one that this
/// user can access. Without a controller, no state folder is created: results go to the user's
/// folder of the XDG Base Directory Specification.
pub fn results(cli: &Cli) -> PathBuf {
    let open = |path: &Path| {
        path.is_dir() && rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok()
    };
    let there = || [BY_HAND, OF_THE_SERVICE].into_iter().map(PathBuf::from).find(|path| open(path));
    let absolute =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let users =
        || absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")));
    named(cli)
        .or_else(there)
        .or_else(|| users().map(|users| users.join("softroc")))
        .unwrap_or_else(|| BY_HAND.into())
}

/// The state folder from the command line, the environment (both are `cli.state`), or systemd.
fn named(cli: &Cli) -> Option<PathBuf> {
    cli.state.clone().or_else(|| given_by_systemd(&std::env::var("STATE_DIRECTORY").ok()?))
}

/// The first of the folders that `STATE_DIRECTORY` names (systemd.exec(5)).
fn given_by_systemd(folders: &str) -> Option<PathBuf> {
    folders.split(':').next().filter(|folder| !folder.is_empty()).map(PathBuf::from)
}

/// A controller on another machine, and the verification of its certificate.
pub fn remote(server: &str, remote: &Remote) -> Outcome<control_api::client::Remote> {
    let trust = match (&remote.fingerprint, &remote.ca) {
        (Some(fingerprint), None) => control_api::Trust::Fingerprint(fingerprint.clone()),
        (None, Some(file)) => control_api::Trust::File(file.clone()),
        (Some(_), Some(_)) => {
            let sentence = "--fingerprint and --ca exclude each other; give one of them";
            return Err(Failure::usage(sentence));
        }
        (None, None) => {
            let sentence = format!(
                "the certificate of {server} cannot be verified; give --fingerprint (printed \
                 there by 'softroc serve --manage'), or --ca FILE"
            );
            return Err(Failure::usage(sentence));
        }
    };
    Ok(control_api::client::Remote::new(server, remote.token.clone(), trust)?)
}

fn found(serves: bool, is_there: impl Fn(&Path) -> bool) -> PathBuf {
    let service = !serves && !is_there(Path::new(BY_HAND)) && is_there(Path::new(OF_THE_SERVICE));
    if service { OF_THE_SERVICE.into() } else { BY_HAND.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_find_the_folder_that_is_there_and_serve_makes_its_own() {
        let found = |serves, there: &[&str]| {
            found(serves, |path| there.iter().any(|folder| Path::new(folder) == path))
        };
        for (there, of_commands) in [
            (&[][..], BY_HAND),
            (&[BY_HAND], BY_HAND),
            (&[OF_THE_SERVICE], OF_THE_SERVICE),
            (&[BY_HAND, OF_THE_SERVICE], BY_HAND),
        ] {
            assert_eq!(found(false, there), Path::new(of_commands), "{there:?}");
            assert_eq!(found(true, there), Path::new(BY_HAND), "{there:?}");
        }
    }

    #[test]
    fn systemd_may_give_several_folders() {
        let first = |text| given_by_systemd(text).map(|path| path.display().to_string());
        assert_eq!(first("/var/lib/softroc").as_deref(), Some("/var/lib/softroc"));
        assert_eq!(first("/var/lib/softroc:/var/lib/more").as_deref(), Some("/var/lib/softroc"));
        assert_eq!(first(""), None);
    }
}
