//! Emulator.

pub mod experiment;
