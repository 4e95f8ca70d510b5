//! The YAML of a scenario, key by key.
//!
//! These types mirror the text and nothing more: quantities are still strings, and names are
//! not resolved. They are flat on purpose, so that a wrong value is reported at its own
//! place. Their doc comments are the text of the scenario reference, which
//! [`super::reference`] renders from the schema; `format`, `default` and `examples` in the
//! schema are shown there, too.

mod assertion;
mod scenario;
mod step;
mod task;

pub(super) use assertion::{RawAssertion, RawUnit};
pub(super) use scenario::{RawBalancing, RawCgroup, RawMachine, RawScenario, RawSince};
pub(super) use step::{RawAccess, RawAction, RawPages, RawStep};
pub(super) use task::{RawPolicyMode, RawTask};

/// The JSON schema of a scenario file.
pub(super) fn schema() -> serde_json::Value {
    schemars::schema_for!(RawScenario).to_value()
}
