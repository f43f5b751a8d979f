//! What comes over a connection. The first byte of an input says how the rest is cut into fragments.

/// What a client sends.
pub(super) fn server(input: &[u8]) {
    nbd::fuzz::fuzz_server(input);
}

/// What a server sends.
pub(super) fn client(input: &[u8]) {
    nbd::fuzz::fuzz_client(input);
}
