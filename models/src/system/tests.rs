//! Tests of systems.
