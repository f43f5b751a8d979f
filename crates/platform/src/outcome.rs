//! What operations came to.

use crate::buffers::Bufs;
use crate::drive::StatusExtent;
use crate::error::IoError;
use crate::health::DriveHealth;

/// What an operation came to.
#[derive(Debug)]
pub struct IoOutcome {
    /// How many bytes were moved, or why none.
    pub result: Result<u64, IoError>,
    /// The buffers of a read, as they were given, in order.
    pub buffers: Bufs,
    /// The answer to a request for block status.
    pub extents: Vec<StatusExtent>,
    /// The answer to a request for the drive's health.
    pub health: Option<Box<DriveHealth>>,
}

impl IoOutcome {
    /// A success that moved `bytes`.
    #[inline]
    pub fn done(bytes: u64) -> IoOutcome {
        IoOutcome { result: Ok(bytes), buffers: Bufs::new(), extents: Vec::new(), health: None }
    }

    /// A failure.
    pub fn failed(error: IoError) -> IoOutcome {
        IoOutcome { result: Err(error), buffers: Bufs::new(), extents: Vec::new(), health: None }
    }

    /// The same with the buffers of a read.
    #[must_use]
    #[inline]
    pub fn with_buffers(self, buffers: Bufs) -> IoOutcome {
        IoOutcome { buffers, ..self }
    }

    /// The answer to a request for the drive's health.
    pub fn with_health(health: DriveHealth) -> IoOutcome {
        IoOutcome { health: Some(Box::new(health)), ..IoOutcome::done(0) }
    }
}
