//! The measured target: any drive of the platform.

use crate::error::{Error, ErrorKind, Result};
use platform::{Drive, DriveInfo, DriveSource, Env, Member};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// The default time after which a request without completion means that the target is gone.
pub const DEFAULT_TIME_LIMIT: Duration = Duration::from_secs(30);

enum Attachment {
    /// Every worker attaches separately (an NBD client then has a connection per worker).
    Source(Arc<dyn DriveSource>),
    /// Already attached: all workers share it.
    Attached(Rc<dyn Drive>),
}

/// A target: a file, a block device, an NBD export, an array in this process, a model. It
/// implements [`platform::Drive`].
pub struct Target {
    name: String,
    way: Attachment,
    time_limit: Duration,
}

impl Target {
    /// A target to which every worker attaches separately. `name` is the user's name for it, also
    /// in results.
    pub fn new(name: impl Into<String>, source: Arc<dyn DriveSource>) -> Target {
        Target {
            name: name.into(),
            way: Attachment::Source(source),
            time_limit: DEFAULT_TIME_LIMIT,
        }
    }

    /// An attached target that all workers share.
    pub fn attached(name: impl Into<String>, drive: Rc<dyn Drive>) -> Target {
        Target {
            name: name.into(),
            way: Attachment::Attached(drive),
            time_limit: DEFAULT_TIME_LIMIT,
        }
    }

    /// Sets the time limit of requests: a target that exceeds it is gone.
    #[must_use]
    pub fn with_time_limit(mut self, time_limit: Duration) -> Target {
        self.time_limit = time_limit;
        self
    }

    /// The user's name for it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its description.
    pub fn info(&self) -> &DriveInfo {
        match &self.way {
            Attachment::Source(source) => source.info(),
            Attachment::Attached(drive) => drive.info(),
        }
    }

    /// A worker's attachment.
    pub(crate) fn attach(&self, env: &Env) -> Result<Member> {
        let drive = match &self.way {
            Attachment::Attached(drive) => drive.clone(),
            Attachment::Source(source) => source.attach(env).map_err(|error| {
                Error::new(ErrorKind::Unreachable, format!("'{}' cannot be attached", self.name))
                    .caused_by(error)
            })?,
        };
        Ok(Member::with_time_limit(env, drive, self.time_limit))
    }
}
