//! The saved configuration of a controller.
//!
//! [`Document::of`] makes a document of everything that is configured, without secrets. [`compare`] says how a document
//! differs from what there is, one [`Difference`] each, and which [`Step`] removes the difference. A document that is
//! compared with the state of which it was made has no difference.
//!
//! Values only: no file, no clock, no controller. `crates/control-api/src/config` reads the state and carries out the steps.
//!
//! Invariants: no step destroys data or removes anything; a volume is created only if that is asked for, and only on
//! drives that are unused. Where a document has no section for a subject, nothing of that subject is compared.
//!
//! | file | what |
//! | --- | --- |
//! | `document` | the document, and its form as a file |
//! | `current` | what there is, and the document of it |
//! | `policy` | which policies are saved, and the command that sets one |
//! | `clock` | times of the day |
//! | `compare` | differences and steps, a file for each subject |

mod clock;
mod compare;
mod current;
mod document;
mod policy;

pub use compare::{Difference, Finding, Options, Step, compare};
pub use current::Current;
pub use document::{
    Account, Array, ControllerPart, Document, Drive, Log, Member, Notification, Numbers, Saved, Schedule,
    Spare, Subscription, VERSION, Volume,
};
