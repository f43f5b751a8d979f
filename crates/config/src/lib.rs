//! The saved configuration of a controller.
//!
//! [`Document::of`] creates a document of the configuration, without secrets. [`compare`] returns
//! each [`Difference`] to the controller, and the [`Step`] that removes it. A document has no
//! difference to the state it was made of.
//!
//! Pure values: no file, no clock, no controller. `crates/control-api/src/config` reads the state
//! and runs the steps.
//!
//! Invariants: no step destroys data or removes anything. A volume is created only on request, on
//! unused drives. Subjects without a section in the document are not compared.
//!
//! | file | what |
//! | --- | --- |
//! | `document` | the document, and its file format |
//! | `current` | the current configuration, and its document |
//! | `policy` | which policies are saved, and the command that sets each |
//! | `clock` | times of day |
//! | `compare` | differences and steps, a file for each subject |

mod clock;
mod compare;
mod current;
mod document;
mod policy;

pub use compare::{Difference, Finding, Options, Step, compare};
pub use current::Current;
pub use document::{
    Account, Array, ControllerPart, Document, Drive, Log, Member, Notification, Numbers, Saved,
    Schedule, Spare, Subscription, VERSION, Volume,
};
