//! Small durable state: what a controller remembers besides what its drives say.

use crate::error::Result;
use crate::world::LocalFuture;

/// A folder of small named texts. Names are plain file names. Everything stored is durable when the future
/// is done, and a crash leaves the old or the new content, never a mixture.
pub trait StateStore {
    /// The content stored under `name`, or `None`.
    fn load<'a>(&'a self, name: &'a str) -> LocalFuture<'a, Result<Option<Vec<u8>>>>;

    /// Replaces what is stored under `name`.
    fn store<'a>(&'a self, name: &'a str, content: Vec<u8>) -> LocalFuture<'a, Result<()>>;

    /// Replaces what is stored under `name`, and keeps what was there under `previous`, in the place of what was kept there before. Where
    /// nothing is stored under `name`, what is stored under `previous` stays. A crash leaves the old or the new content under `name`, and
    /// under `previous` one of the two.
    fn replace<'a>(
        &'a self,
        name: &'a str,
        previous: &'a str,
        content: Vec<u8>,
    ) -> LocalFuture<'a, Result<()>>;

    /// Moves what is stored under `name` to `aside`, durably, whether or not it can be read. `false`, and nothing moved, where
    /// something is stored under `aside` already.
    fn set_aside<'a>(&'a self, name: &'a str, aside: &'a str) -> LocalFuture<'a, Result<bool>>;

    /// Appends to what is stored under `name`; a crash may leave the end of the last piece out.
    fn append<'a>(&'a self, name: &'a str, content: Vec<u8>) -> LocalFuture<'a, Result<()>>;
}
