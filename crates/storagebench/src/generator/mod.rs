//! The load generator: which request is next, when it is due, what it carries, and the loops that keep so many in flight.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `loops` | each outstanding I/O is a task; the rules of closed and open loops |
//! | `pattern` | a load profile over an area, as a stream of (read or write, offset, length) |
//! | `skew` | where random requests go when not all places are equally popular |
//! | `schedule` | when the requests of an open loop are due |
//! | `payload` | what writes carry |
//! | `verify` | every block says what it is, and reads are checked |
//! | `random` | random numbers: fast, seeded, good enough for load |

pub(crate) mod loops;
pub(crate) mod pattern;
pub(crate) mod payload;
pub(crate) mod random;
pub(crate) mod schedule;
pub(crate) mod skew;
pub(crate) mod verify;
