//! numalab.
