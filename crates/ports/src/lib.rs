//! How hosts reach a volume.
