//! Bytes on drives: labels and write-intent maps; decode, encode, reconcile.
