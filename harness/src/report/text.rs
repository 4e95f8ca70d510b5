//! Reports as text, for a terminal and for `report.txt`.

pub use super::comparison::comparison;
pub(crate) use super::comparison::{comparison_body, comparison_notes, deciding};
pub(crate) use super::runs::moment;
pub use super::runs::{cached, counters, details, does_not_apply, left_out, runs};
