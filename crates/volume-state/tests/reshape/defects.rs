//! Planted defects of the reshape model: the exploration must find each.

/// A planted defect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Defect {
    None,

    // Before a window is moved.
    /// Hosts write to the window while it is moved.
    NotClosed,
    /// The step does not wait for a running host write.
    InFlightIgnored,
    /// The cache destages data of the window after the move.
    DirtyIgnored,

    // Saving.
    /// No window is saved.
    NeverSaved,
    /// The old row partly behind the cursor counts as free.
    BoundaryFree,
    /// Downward, old rows past the volume's last byte count as free before the first record.
    BehindFree,
    /// The window is saved without redundancy.
    SavedThin,
    /// The save area is not flushed before the record.
    SaveUnflushed,
    /// The save is not recorded before the window is written.
    SaveUnrecorded,

    // Moving.
    /// The window is not flushed before the record.
    WriteUnflushed,
    /// The window is opened before the record.
    MoveUnrecorded,
    /// A record counts as durable when one drive has it.
    FewLabels,
    /// Writes behind the cursor use the old layout.
    RoutedByOld,
    /// Writes ahead of the cursor use the new layout.
    RoutedByNew,

    // After a failed step.
    /// The saved window is opened and served in the old layout.
    SavedOpened,
    /// The saved window is read in the old layout.
    LeftReadByOld,

    // After a crash.
    /// The record is not written again.
    Unconfirmed,
    /// The window is read in the old layout, though it is saved.
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
