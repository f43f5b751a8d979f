//! What the engine promises, room by room, as one program: what its tests are built of is built once.

mod answers;
mod beside;
mod cells;
mod choices;
mod common;
mod data_log;
mod first_write;
mod forced;
mod joined;
mod journal;
mod log_devices;
mod lost_blocks;
mod medium;
mod members;
mod quick_reads;
mod reads;
mod regressions;
mod reshape;
mod runs;
mod storms;
mod tasks;
mod together;
mod unkept_blocks;
mod volumes;
mod whole_stripes;
mod write_back;
