//! `/cN get config file=F`, `/cN set config file=F`: the file of `softroc config save`, and
//! `softroc config restore --create` of it.
//!
//! (The files of hardware controllers have an undocumented format, and are refused.)

use super::{Refusal, outcome};
use crate::Machine;
use crate::answer::{Answer, OTHER};
use crate::words::Word;

/// The file name, if there is one.
fn path(file: &Word) -> Option<&str> {
    file.value.as_deref().filter(|path| file.key == "file" && !path.is_empty())
}

/// Saves the configuration to a file.
pub(super) fn get(file: &Word, machine: &mut dyn Machine) -> Answer {
    let Some(path) = path(file) else { return Answer::unsupported() };
    let document = machine.configuration().map_err(Refusal::from);
    let done = document.and_then(|document| {
        machine.write(path, &document).map_err(|why| Refusal::new(OTHER, why))
    });
    outcome("-", "Get Config", done)
}

/// Restores a file.
pub(super) fn set(file: &Word, machine: &mut dyn Machine) -> Answer {
    let Some(path) = path(file) else { return Answer::unsupported() };
    let document = machine.read(path).map_err(|why| Refusal::new(OTHER, why));
    let left = document.and_then(|document| Ok(machine.restore(&document)?));
    let done = left.and_then(|left| match &left[..] {
        [] => Ok(()),
        [first, others @ ..] => Err(Refusal::new(
            OTHER,
            format!(
                "differs from the file: {first} (and {} more); run 'softroc config restore {path} \
                    --dry-run'",
                others.len()
            ),
        )),
    });
    outcome("-", "Set Config", done)
}
