//! Drives that need no world of their own: memory, null, scripted faults, remote NBD exports.
