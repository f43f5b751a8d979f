//! `softroc snmp pass`: what a running controller says, by SNMP. The daemon `snmpd` of net-snmp starts it (`pass_persist`) and asks it line
//! by line; versions, users and encryption are the daemon's. `docs/SOFTROC-MIB.txt` names what there is.

mod values;

use crate::control::Control;
use crate::failure::{Failure, Outcome};
use std::io::{BufRead, Write, stdin, stdout};
use std::time::{Duration, Instant};
use values::{Oid, Tree};

/// How old an answer may be. A walk asks for every value by itself.
const FRESH: Duration = Duration::from_secs(2);

/// Answers until the daemon ends.
pub fn pass(control: &Control) -> Outcome {
    let mut state = State { control, tree: None };
    let mut lines = stdin().lock().lines();
    let mut out = stdout().lock();
    while let Some(line) = lines.next() {
        let command = line.map_err(failed)?;
        let mut more = || lines.next().transpose().map(Option::unwrap_or_default).map_err(failed);
        let answer = match command.trim() {
            // An empty line is how the daemon says goodbye.
            "" => return Ok(()),
            "PING" => "PONG\n".to_owned(),
            "get" => told(&more()?, |oid| state.tree().get(oid)),
            "getnext" => told(&more()?, |oid| state.tree().next(oid)),
            "set" => {
                // Which, and what.
                more()?;
                more()?;
                "not-writable\n".to_owned()
            }
            _ => "NONE\n".to_owned(),
        };
        out.write_all(answer.as_bytes()).and_then(|()| out.flush()).map_err(failed)?;
    }
    Ok(())
}

fn failed(error: std::io::Error) -> Failure {
    Failure::failed(format!("snmpd does not talk any more: {error}"))
}

/// The answer to a question of the daemon: three lines, or that there is nothing.
fn told(asked: &str, look: impl FnOnce(&Oid) -> Option<(Oid, String)>) -> String {
    let found = asked.trim().parse().ok().and_then(|oid| look(&oid));
    found.map_or_else(
        || "NONE\n".to_owned(),
        |(oid, told)| {
            let (kind, value) = told.split_once('\n').unwrap_or((&told, ""));
            // A line end in a value would be the answer to another question.
            format!("{oid}\n{kind}\n{}\n", units::printable(value))
        },
    )
}

struct State<'c> {
    control: &'c Control,
    tree: Option<(Instant, Tree)>,
}

impl State<'_> {
    /// What there is now.
    fn tree(&mut self) -> &Tree {
        let is_old = self.tree.as_ref().is_none_or(|(since, _)| since.elapsed() >= FRESH);
        if is_old {
            self.tree = None;
        }
        let control = self.control;
        &self.tree.get_or_insert_with(|| (Instant::now(), values::look(control))).1
    }
}
