//! Redfish: the state of the controller as resources of DMTF's schemas (bundle 2025.4), and changes
//! as the controller's commands.
//!
//! This crate only maps values: a [`World`] and a [`Request`] result in an [`Answer`]. The HTTP
//! server executes the [`Change`] of an answer and passes the result to [`finished`].
//!
//! | module | content |
//! | --- | --- |
//! | `world` | the input of resources |
//! | `answer`, `query` | access checks, methods, ETags; `$expand`, `$select`, `$top`, `$skip`, `only` |
//! | `tree` | the addresses |
//! | `root`, `system`, `storage`, `volume`, `drive` | the resources of the machine |
//! | `log`, `access`, `task`, `event` | the resources of the services |
//! | `change` | changes as commands, and their responses |
//! | `schema`, `registry`, `message` | types, registries, messages |
//! | `ids`, `json`, `state` | identifiers, helpers, states |

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
pub use change::{Change, ChangeResult, Operation, finished};
pub use event::{RETRIES, sent};
pub use world::{Subscription, World};
