//! The control socket: commands as JSON over HTTP.
