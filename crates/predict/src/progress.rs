//! What a caller sees while something long runs.

/// What has just happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress<'a> {
    /// Something begins that has this name: a load profile, a figure, a fit.
    Begins(&'a str),
    /// One more of the countable things is done: a run, a figure, a place of a fit.
    OneDone,
}

/// Receives progress, from whichever thread it is made on.
pub type OnProgress<'a> = &'a (dyn Fn(Progress<'_>) + Sync);
