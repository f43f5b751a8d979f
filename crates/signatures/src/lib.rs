//! Recognises what a drive holds.
