//! The console: pages for people who look after the controller, in a browser.
//!
//! A page is a function of what the controller tells ([`World`]) and of who looks ([`Viewer`]); nothing is kept here. It reads as
//! text without a script. A page is made of *parts*: whoever serves it sends those that have changed to pages that are open
//! ([`Page::changed`]), and a script puts them in their place.
//!
//! What can be done is a [`Deed`]: a form, the controller's command, and the command line that does the same. The page that shows the form and
//! the request that comes back of it make the same deed of the same words.
//!
//! | file | what |
//! | --- | --- |
//! | `world` | what pages are made of |
//! | `page` | a page, its parts, what has changed of it; which page is at which address |
//! | `status` | the sentence on top of every page, and what is not as it should be |
//! | `overview`, `volume`, `drive`, `events` | the pages |
//! | `replace` | another drive in the place of one, step by step |
//! | `stage` | a place of an array, and where things stand with the drive in it |
//! | `create` | a new volume: what drives make, level by level, and what it costs |
//! | `foreseen` | what is predicted for pages that say what would be |
//! | `maintenance` | schedules, spares, the alarm, channels, accounts, the certificate |
//! | `workbench` | what is measured and predicted, as values |
//! | `bench` | a measurement while it goes on, and a prediction beside it |
//! | `traffic` | what hosts asked of a volume, in numbers and as a chart |
//! | `what_if` | what would be lost if drives failed, and what reads would cost |
//! | `lists` | tasks and events, as several pages list them |
//! | `advice` | drives that have to be dealt with: which one, may it be pulled, what to buy |
//! | `deed` | what can be done |
//! | `entrance` | signing in, and another password |
//! | `words` | states, times, addresses and shell words, as pages write them |
//! | `assets` | the style and the script |
//!
//! Text is escaped by the templates (`templates/`); what is put in unescaped was made by another template.

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
pub use deed::{Deed, Order};
pub use entrance::{password, sign_in};
pub use events::{Export, export};
pub use page::{Needs, Page, Shown, failed, kept, leads, needs, page, predictions, questions, told};
pub use words::{Query, back, encoded};
pub use workbench::{Live, Load, Measure, Model, Offer, Point, Predict, Prediction, Run, Stage, Workbench};
pub use world::{Channel, Rate, Sample, Upkeep, Viewer, World};
