//! Redfish: what the controller tells, as the resources of DMTF's schemas (bundle 2025.4); and what is asked of them, as the
//! controller's own commands.
//!
//! Values only: a [`World`] and a [`Request`] in, an [`Answer`] out. Who speaks HTTP carries out the [`Change`] of an answer, and has
//! [`finished`] say what came of it.
//!
//! | file | what |
//! | --- | --- |
//! | `world` | everything that resources are made of |
//! | `answer` | a request answered: who may ask, methods, revisions |
//! | `query` | `$expand`, `$select`, `$top`, `$skip`, `only` |
//! | `tree` | which resource is where |
//! | `root`, `system`, `storage`, `volume`, `drive`, `log`, `access`, `task`, `event` | the resources |
//! | `change` | what is asked to be changed, as commands; and what is answered when it is done |
//! | `schema`, `registry`, `message` | types, registries, what errors say |
//! | `ids`, `json`, `state` | addresses, shorthands, words |

mod access;
mod answer;
mod change;
mod drive;
mod event;
mod ids;
mod json;
mod log;
mod message;
mod query;
mod registry;
mod root;
mod schema;
mod state;
mod storage;
mod system;
mod task;
mod tree;
mod volume;
mod world;

pub use answer::{Answer, Body, Request, Response, answer, is_ours, unauthenticated};
pub use change::{Asked, Change, Done, finished};
pub use event::{RETRIES, sent};
pub use world::{Subscription, World};
