//! The load generator: requests, their due times, their payload, and the loops that keep them
//! outstanding.
//!
//! | module | contents |
//! | --- | --- |
//! | `loops` | each outstanding I/O is a task; the rules of closed and open loops |
//! | `pattern` | a load profile over an area, as a stream of (read or write, offset, length) |
//! | `skew` | offsets of random requests with unequal popularity |
//! | `schedule` | due times of an open loop |
//! | `payload` | the bytes of writes |
//! | `verify` | self-describing blocks, and the check of reads |
//! | `random` | random numbers: fast, seeded, sufficient for load |

pub(crate) mod loops;
pub(crate) mod pattern;
pub(crate) mod payload;
pub(crate) mod random;
pub(crate) mod schedule;
pub(crate) mod skew;
pub(crate) mod verify;
