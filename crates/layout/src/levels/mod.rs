//! One file per level: its row in the table, and figures of its layout.

pub(crate) mod jbod;
pub(crate) mod raid0;
pub(crate) mod raid00;
pub(crate) mod raid1;
pub(crate) mod raid10;
pub(crate) mod raid1e;
pub(crate) mod raid4;
pub(crate) mod raid5;
pub(crate) mod raid50;
pub(crate) mod raid5ee;
pub(crate) mod raid6;
pub(crate) mod raid60;
