//! The scenario of the README as a test, in the way that another crate's own tests are made.

numalab::tests_main!("tests/readme/");
