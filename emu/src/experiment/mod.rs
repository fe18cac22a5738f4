//! Experiments: what is run, as the words of a command say it.

pub mod grammar;
