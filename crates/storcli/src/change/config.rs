//! `/cN get config file=F`, `/cN set config file=F`: the file of `softroc config save`, and `softroc config restore --create` of it.
//!
//! (The file of a hardware controller is not readable to others, and is refused.)

use super::{Refusal, outcome};
use crate::Machine;
use crate::answer::{Answer, OTHER};
use crate::words::Word;

/// The name of a file, if there is one.
fn path(file: &Word) -> Option<&str> {
    file.value.as_deref().filter(|path| file.key == "file" && !path.is_empty())
}

/// Writes the file.
pub(super) fn get(file: &Word, machine: &mut dyn Machine) -> Answer {
    let Some(path) = path(file) else { return Answer::unsupported() };
    let document = machine.configuration().map_err(Refusal::from);
    let done =
        document.and_then(|document| machine.write(path, &document).map_err(|why| Refusal::new(OTHER, why)));
    outcome("-", "Get Config", done)
}

/// Sets what a file has.
pub(super) fn set(file: &Word, machine: &mut dyn Machine) -> Answer {
    let Some(path) = path(file) else { return Answer::unsupported() };
    let document = machine.read(path).map_err(|why| Refusal::new(OTHER, why));
    let left = document.and_then(|document| Ok(machine.restore(&document)?));
    let done = left.and_then(|left| match &left[..] {
        [] => Ok(()),
        [first, others @ ..] => Err(Refusal::new(
            OTHER,
            format!(
                "not as the file says: {first} (and {} more); run 'softroc config restore {path} --dry-run'",
                others.len()
            ),
        )),
    });
    outcome("-", "Set Config", done)
}
