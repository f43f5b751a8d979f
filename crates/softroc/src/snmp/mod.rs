//! `softroc snmp pass`: the state of a running controller over SNMP. The daemon `snmpd` of net-snmp
//! starts it (`pass_persist`) and sends requests line by line; the daemon handles versions, users
//! and encryption. `docs/SOFTROC-MIB.txt` defines the values.

mod values;

use crate::control::Control;
use crate::failure::{Failure, Outcome};
use std::io::{BufRead, Write, stdin, stdout};
use std::time::{Duration, Instant};
use values::{Oid, Tree};

/// The largest age of cached values: a walk requests every value separately.
const FRESH: Duration = Duration::from_secs(2);

/// Answers until the daemon ends.
pub fn pass(control: &Control) -> Outcome {
    let mut state = CachedTree { control, tree: None };
    let mut lines = stdin().lock().lines();
    let mut out = stdout().lock();
    while let Some(line) = lines.next() {
        let command = line.map_err(failed)?;
        let mut more = || lines.next().transpose().map(Option::unwrap_or_default).map_err(failed);
        let answer = match command.trim() {
            // An empty line ends the session.
            "" => return Ok(()),
            "PING" => "PONG\n".to_owned(),
            "get" => told(&more()?, |oid| state.tree().get(oid)),
            "getnext" => told(&more()?, |oid| state.tree().next(oid)),
            "set" => {
                // The OID and the value.
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
    Failure::failed(format!("the connection to snmpd failed: {error}"))
}

/// The reply to a request of the daemon: three lines, or that there is no such value.
fn told(asked: &str, look: impl FnOnce(&Oid) -> Option<(Oid, String)>) -> String {
    let found = asked.trim().parse().ok().and_then(|oid| look(&oid));
    found.map_or_else(
        || "NONE\n".to_owned(),
        |(oid, told)| {
            let (kind, value) = told.split_once('\n').unwrap_or((&told, ""));
            // A line end in a value would forge another reply.
            format!("{oid}\n{kind}\n{}\n", units::printable(value))
        },
    )
}

struct CachedTree<'c> {
    control: &'c Control,
    tree: Option<(Instant, Tree)>,
}

impl CachedTree<'_> {
    /// The current values.
    fn tree(&mut self) -> &Tree {
        let is_old = self.tree.as_ref().is_none_or(|(since, _)| since.elapsed() >= FRESH);
        if is_old {
            self.tree = None;
        }
        let control = self.control;
        &self.tree.get_or_insert_with(|| (Instant::now(), values::look(control))).1
    }
}
