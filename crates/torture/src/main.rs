//! The torture binary.

fn main() {}
