//! What is measured: anything that is a drive to the seam.

use crate::error::{Error, ErrorKind, Result};
use platform::{Drive, DriveInfo, DriveSource, Env, Member};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// How long a request may take before the target counts as gone, unless told otherwise.
pub const DEFAULT_TIME_LIMIT: Duration = Duration::from_secs(30);

enum Way {
    /// Every worker attaches for itself (an NBD client then has a connection a worker).
    Source(Arc<dyn DriveSource>),
    /// Attached already: all workers share it.
    Attached(Rc<dyn Drive>),
}

/// A target: a file, a block device, an NBD export, an array in this process, a model. It is whatever
/// implements [`platform::Drive`].
pub struct Target {
    name: String,
    way: Way,
    time_limit: Duration,
}

impl Target {
    /// A target that every worker attaches for itself. `name` is how it was named, and stands in the results.
    pub fn new(name: impl Into<String>, source: Arc<dyn DriveSource>) -> Target {
        Target { name: name.into(), way: Way::Source(source), time_limit: DEFAULT_TIME_LIMIT }
    }

    /// A target that is attached already and that all workers share.
    pub fn attached(name: impl Into<String>, drive: Rc<dyn Drive>) -> Target {
        Target { name: name.into(), way: Way::Attached(drive), time_limit: DEFAULT_TIME_LIMIT }
    }

    /// The same with a time limit for every request: a target that does not answer for so long has vanished.
    #[must_use]
    pub fn with_time_limit(mut self, time_limit: Duration) -> Target {
        self.time_limit = time_limit;
        self
    }

    /// How it was named.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it says of itself.
    pub fn info(&self) -> &DriveInfo {
        match &self.way {
            Way::Source(source) => source.info(),
            Way::Attached(drive) => drive.info(),
        }
    }

    /// One worker's way to it.
    pub(crate) fn attach(&self, env: &Env) -> Result<Member> {
        let drive = match &self.way {
            Way::Attached(drive) => drive.clone(),
            Way::Source(source) => source.attach(env).map_err(|error| {
                Error::new(ErrorKind::Unreachable, format!("'{}' cannot be attached", self.name))
                    .caused_by(error)
            })?,
        };
        Ok(Member::with_time_limit(env, drive, self.time_limit))
    }
}
