//! Emulation of guest code under the MMU models, and the command line.
//!
//! ```text
//! ram          guest RAM, one host mapping
//! plugin       the MMU model as a plugin of a Unicorn instance
//! arch         what differs between the architectures
//! decode       guest instructions, decoded once per block
//! inspect      memory images from outside, for walks by hand
//! loader       ELF images and the boot information
//! machine      virtual CPUs that share RAM, and the guest ABI
//! experiment   what is run: grammar, machines, jobs
//! replay       recordings of real kernels on modelled machines
//! report       results, one structure and many formats
//! curve        access latency against footprint
//! chart        figures as SVG and HTML
//! ```

pub mod arch;
pub mod chart;
pub mod curve;
pub mod decode;
pub mod experiment;
pub mod inspect;
pub mod loader;
pub mod machine;
pub mod plugin;
pub mod ram;
pub mod replay;
pub mod report;
