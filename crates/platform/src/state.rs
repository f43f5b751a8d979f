//! Small durable state of a controller that is not on its drives.

use crate::error::Result;
use crate::executor::LocalFuture;

/// A folder of small named texts. Names are plain file names. A store is durable when the future
/// completes; a crash leaves the old or the new content, never a mixture.
pub trait StateStore {
    /// The content stored under `name`, or `None`.
    fn load<'a>(&'a self, name: &'a str) -> LocalFuture<'a, Result<Option<Vec<u8>>>>;

    /// Replaces the content of `name`.
    fn store<'a>(&'a self, name: &'a str, content: Vec<u8>) -> LocalFuture<'a, Result<()>>;

    /// Replaces the content of `name`, and stores its old content under `previous`, replacing that.
    /// Without an old content `previous` is unchanged. A crash leaves the old or the new content in
    /// `name`, and one of the two in `previous`.
    fn replace<'a>(
        &'a self,
        name: &'a str,
        previous: &'a str,
        content: Vec<u8>,
    ) -> LocalFuture<'a, Result<()>>;

    /// Renames `name` to `aside`, durably, whether or not it is readable. `false`: `aside` exists
    /// already, and nothing was renamed.
    fn set_aside<'a>(&'a self, name: &'a str, aside: &'a str) -> LocalFuture<'a, Result<bool>>;

    /// Appends to the content of `name`; a crash may truncate the last piece.
    fn append<'a>(&'a self, name: &'a str, content: Vec<u8>) -> LocalFuture<'a, Result<()>>;
}
