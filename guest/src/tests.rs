//! Small guests that exercise one property of a machine each. They report what
//! they saw as results; the test that runs them judges.

use crate::image::{Image, image};

/// Translation on, one message, exit 0.
pub const HELLO: Image = image!("hello");

/// Every test guest.
pub const ALL: &[&Image] = &[&HELLO];
