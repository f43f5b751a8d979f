//! Input from hosts: over a connection, where the first byte of an input determines the fragments,
//! or through memory that a guest shares.

/// Input from a client.
pub(super) fn server(input: &[u8]) {
    nbd::fuzz::fuzz_server(input);
}

/// Input from a server.
pub(super) fn client(input: &[u8]) {
    nbd::fuzz::fuzz_client(input);
}

/// Input from a guest, in its memory.
pub(super) fn guest(input: &[u8]) {
    guests::fuzz::fuzz_queue(input);
}
