//! numalab as an outsider uses it.

mod machine;
