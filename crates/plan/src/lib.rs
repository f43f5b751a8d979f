//! Request × layout × health → plan, per stripe.
mod bands;
mod method;
mod request;
mod steps;

pub(crate) use bands::Bands;
pub use method::{Alternative, Method, Price, Verdict};
pub use request::{ErrorKind, Health, Request, Unplannable};
pub use steps::{
    Compute, ComputeKind, Cost, Plan, Read, ReadPart, ReadSlot, ScratchSlot, Source, Step, Target, Write,
    WritePart,
};
