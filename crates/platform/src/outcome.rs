//! Outcomes of operations.

use crate::buffers::Bufs;
use crate::error::IoError;
use crate::health::DriveHealth;
use crate::request::StatusExtent;

/// The outcome of an operation.
#[derive(Debug)]
pub struct IoOutcome {
    /// The number of bytes transferred, or the error.
    pub result: Result<u64, IoError>,
    /// The buffers of a read, in their original order.
    pub buffers: Bufs,
    /// The result of a block status request.
    pub extents: Vec<StatusExtent>,
    /// The result of a health request.
    pub health: Option<Box<DriveHealth>>,
}

impl IoOutcome {
    /// A success that transferred `bytes`.
    #[inline]
    pub fn done(bytes: u64) -> IoOutcome {
        IoOutcome { result: Ok(bytes), buffers: Bufs::new(), extents: Vec::new(), health: None }
    }

    /// A failure.
    pub fn failed(error: IoError) -> IoOutcome {
        IoOutcome { result: Err(error), buffers: Bufs::new(), extents: Vec::new(), health: None }
    }

    /// Adds the buffers of a read.
    #[must_use]
    #[inline]
    pub fn with_buffers(self, buffers: Bufs) -> IoOutcome {
        IoOutcome { buffers, ..self }
    }

    /// The outcome of a health request.
    pub fn with_health(health: DriveHealth) -> IoOutcome {
        IoOutcome { health: Some(Box::new(health)), ..IoOutcome::done(0) }
    }
}
