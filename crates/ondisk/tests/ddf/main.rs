//! DDF: reference images, round trips, updates that are cut off, `mdadm` as a judge, mutated bytes.

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
