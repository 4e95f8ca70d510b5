//! numalab.

pub mod machine;
