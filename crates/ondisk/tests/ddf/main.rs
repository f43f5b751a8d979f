//! DDF: reference images, round trips, interrupted updates, `mdadm` as a reference, mutated bytes.

mod arrays;
mod decode;
mod encode;
mod hostile;
mod image;
mod lacking;
mod made;
mod mdadm;
mod torn;
mod variants;
