//! What is planted into the model of a reshape: each has to be found.

/// What is planted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Defect {
    None,

    // Before a window is moved.
    /// Hosts write to the window while it is moved.
    NotClosed,
    /// A write of a host that had begun is not waited for.
    InFlightIgnored,
    /// What the cache has of the window is written after it was moved.
    DirtyIgnored,

    // What is saved.
    /// Nothing is.
    NeverSaved,
    /// The old row that is in part behind the cursor counts as free.
    BoundaryFree,
    /// Downward, old rows behind the volume's last byte count as free before anything is recorded.
    BehindFree,
    /// It is saved without redundancy.
    SavedThin,
    /// It is not flushed before it is recorded.
    SaveUnflushed,
    /// It is not recorded before the window is written.
    SaveUnrecorded,

    // What is moved.
    /// The window is not flushed before it is recorded.
    WriteUnflushed,
    /// It is opened before that is recorded.
    MoveUnrecorded,
    /// A record is taken for durable when one drive has it.
    FewLabels,
    /// What is behind the cursor is still written by the old layout.
    RoutedByOld,
    /// What is ahead of the cursor is written by the new layout.
    RoutedByNew,

    // When a step fails.
    /// What is saved is opened, and served by the old layout.
    SavedOpened,
    /// What is saved is read by the old layout.
    LeftReadByOld,

    // After a crash.
    /// What was found is not recorded again.
    Unconfirmed,
    /// The window is read by the old layout, though it is saved.
    SaveNotRead,
}

pub(super) const DEFECTS: [Defect; 18] = [
    Defect::NotClosed,
    Defect::InFlightIgnored,
    Defect::DirtyIgnored,
    Defect::NeverSaved,
    Defect::BoundaryFree,
    Defect::BehindFree,
    Defect::SavedThin,
    Defect::SaveUnflushed,
    Defect::SaveUnrecorded,
    Defect::WriteUnflushed,
    Defect::MoveUnrecorded,
    Defect::FewLabels,
    Defect::RoutedByOld,
    Defect::RoutedByNew,
    Defect::SavedOpened,
    Defect::LeftReadByOld,
    Defect::Unconfirmed,
    Defect::SaveNotRead,
];
