//! What comes from hosts: over a connection, where the first byte of an input says how the rest is cut into fragments, or through
//! memory that a guest shares.

/// What a client sends.
pub(super) fn server(input: &[u8]) {
    nbd::fuzz::fuzz_server(input);
}

/// What a server sends.
pub(super) fn client(input: &[u8]) {
    nbd::fuzz::fuzz_client(input);
}

/// What a guest writes into its memory.
pub(super) fn guest(input: &[u8]) {
    guests::fuzz::fuzz_queue(input);
}
