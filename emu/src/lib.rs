//! Emulator.
