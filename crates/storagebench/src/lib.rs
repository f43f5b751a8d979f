//! StorageBench.
