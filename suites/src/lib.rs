//! The shipped scenarios.
