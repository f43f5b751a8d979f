//! Progress reports of long operations.

/// A progress event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress<'a> {
    /// An item with this name begins: a load profile, a figure, a fit.
    Begins(&'a str),
    /// One unit is done: a run, a figure, a point of a fit.
    OneDone,
}

/// Receives progress, on any thread.
pub type OnProgress<'a> = &'a (dyn Fn(Progress<'_>) + Sync);
