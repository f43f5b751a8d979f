//! The web console: HTML pages of the controller for a browser.
//!
//! A page is a function of the controller's state ([`World`]) and the viewer ([`Viewer`]); this
//! crate keeps no state. Pages are readable without a script. They consist of *parts*: the server
//! sends changed parts to open pages ([`Page::changed`]), and a script replaces them.
//!
//! A [`ConsoleAction`] is an action: a form, its controller command, and the equivalent command
//! line. The page and the submitted form build the same action from the same fields.
//!
//! | module | content |
//! | --- | --- |
//! | `world`, `words`, `assets` | input of pages; formatting and escaping; style and script |
//! | `page`, `status`, `lists` | pages and their parts; the status line; lists of tasks and events
//! |
//! | `overview`, `volume`, `drive`, `events`, `traffic` | pages of the current state |
//! | `replace`, `stage`, `advice` | replacement of a drive, the state of its slot, recommendations
//! |
//! | `create`, `what_if`, `foreseen` | new volumes, simulated failures, their predictions |
//! | `workbench`, `bench` | values and page of benchmarks and predictions |
//! | `maintenance`, `deed`, `entrance` | schedules, accounts, channels; actions; sign-in |
//!
//! Templates (`templates/`) escape text. Unescaped insertions come from other templates.

mod advice;
mod assets;
mod bench;
mod create;
mod deed;
mod drive;
mod entrance;
mod events;
mod foreseen;
mod lists;
mod maintenance;
mod overview;
mod page;
mod replace;
mod stage;
mod status;
mod traffic;
mod volume;
mod what_if;
mod words;
mod workbench;
mod world;

pub use assets::{Asset, asset};
pub use deed::{ConsoleAction, Order};
pub use entrance::{password, sign_in};
pub use events::{Export, export};
pub use page::{
    Needs, Page, Shown, failed, kept, leads, needs, page, predictions, questions, told,
};
pub use words::{Query, back, encoded};
pub use workbench::{
    Live, Load, Measure, Model, Offer, Point, Predict, Prediction, Run, Stage, Workbench,
};
pub use world::{Channel, Rate, Sample, Upkeep, Viewer, World};
