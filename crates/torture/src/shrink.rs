//! A shorter history that still fails, found by a bounded search: without a neighbour, log devices,
//! lives, faults, operator actions or requests.
//!
//! The other draws do not change, but later events happen at other times: a failure may disappear
//! although the omission is unrelated. So each omission that keeps the failure is kept, and the
//! search continues.

use crate::campaign::{Observed, run_guarded};
use crate::error::{Error, ErrorKind};
use crate::options::{Larger, Log, Migrations, Neighbour, Options, RequestName};
use crate::setup::Setup;
use std::collections::BTreeSet;

/// The result of the search.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// The options of the shortest failing history.
    pub options: Options,
    /// Its error.
    pub error: Error,
    /// The number of runs.
    pub runs: u64,
    /// The number of remaining requests, and of remaining faults and operator actions.
    pub left: (usize, usize),
}

struct Search {
    seed: u64,
    kind: ErrorKind,
    runs_left: u64,
    best: Options,
    error: Error,
    observed: Observed,
}

/// Shrinks a failing seed's history, in at most `runs` runs. `None` if it does not fail, or fails
/// only when it runs twice.
pub fn shrink(seed: u64, options: &Options, runs: u64) -> Option<Shrunk> {
    let (result, observed) = run_guarded(seed, options);
    let error = result.err()?;
    let (kind, best) = (error.kind, options.clone());
    let mut search = Search { seed, kind, runs_left: runs, best, error, observed };
    let mut size = usize::MAX;
    // Each omission may enable others: repeat until nothing changes.
    while search.size() < size && search.runs_left > 0 {
        size = search.size();
        search.leave_out_neighbour();
        search.leave_out_log();
        search.leave_out_migrations();
        search.leave_out_larger();
        search.leave_out_inquests();
        search.leave_out_lives();
        search.leave_out_incidents();
        search.leave_out_requests();
    }
    let left = (search.observed.requests.len(), search.observed.incidents.len());
    Some(Shrunk { options: search.best, error: search.error, runs: runs - search.runs_left, left })
}

impl Search {
    fn size(&self) -> usize {
        self.observed.requests.len() + self.observed.incidents.len()
    }

    /// Whether the failure remains; then these options are the best so far.
    fn try_with(&mut self, options: Options) -> bool {
        if self.runs_left == 0 || options == self.best {
            return false;
        }
        self.runs_left -= 1;
        let (result, observed) = run_guarded(self.seed, &options);
        match result {
            Err(error) if error.kind == self.kind => {
                (self.best, self.error, self.observed) = (options, error, observed);
                true
            }
            _ => false,
        }
    }

    fn leave_out_neighbour(&mut self) {
        let options = Options { neighbour: Neighbour::Never, ..self.best.clone() };
        self.try_with(options);
    }

    fn leave_out_log(&mut self) {
        let options = Options { log: Log::Never, ..self.best.clone() };
        self.try_with(options);
    }

    fn leave_out_migrations(&mut self) {
        let options = Options { migrations: Migrations::Never, ..self.best.clone() };
        self.try_with(options);
    }

    fn leave_out_larger(&mut self) {
        let options = Options { larger: Larger::Never, ..self.best.clone() };
        self.try_with(options);
    }

    fn leave_out_inquests(&mut self) {
        let mut options = self.best.clone();
        options.without.inquests = true;
        self.try_with(options);
    }

    fn leave_out_lives(&mut self) {
        for life in 0..Setup::draw(self.seed, &self.best).lives {
            let mut options = self.best.clone();
            if options.without.lives.insert(life) {
                self.try_with(options);
            }
        }
    }

    fn leave_out_incidents(&mut self) {
        let mut all = self.best.clone();
        all.without.incidents.extend(&self.observed.incidents);
        if self.try_with(all) {
            return;
        }
        for incident in self.observed.incidents.clone() {
            let mut options = self.best.clone();
            options.without.incidents.insert(incident);
            self.try_with(options);
        }
    }

    /// Omits ranges of requests: halves, quarters, and so on.
    fn leave_out_requests(&mut self) {
        let mut none = self.best.clone();
        none.without.all_requests_but = Some(BTreeSet::new());
        if self.try_with(none) {
            return;
        }
        let mut length = self.observed.requests.len().div_ceil(2);
        while length > 0 && self.runs_left > 0 {
            let mut start = 0;
            while start < self.observed.requests.len() && self.runs_left > 0 {
                let requests = &self.observed.requests;
                let end = (start + length).min(requests.len());
                let kept: BTreeSet<RequestName> =
                    requests[..start].iter().chain(&requests[end..]).copied().collect();
                let mut options = self.best.clone();
                options.without.all_requests_but = Some(kept);
                // After an omission, the next range starts at the same index.
                if !self.try_with(options) {
                    start = end;
                }
            }
            length = if length == 1 { 0 } else { length.div_ceil(2) };
        }
    }
}
