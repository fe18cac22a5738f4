//! Event streams.
