//! What a run is of: a scenario, a machine, a kernel and a seed.

use numalab_protocol::Plan;
use numalab_protocol::plan::Watch;

use crate::error::Error;
use crate::guest::mode::{Accelerator, Mode, Platform};
use crate::guest::topology::Machine;
use crate::kernel_id::KernelId;
use crate::scenario::Scenario;

/// Exact mode's shift where a scenario names none. 3 to 7 were tried on the shipped
/// workloads: 6 is little faster and scans less, 7 is slower again and scans too little.
pub const DEFAULT_SHIFT: u8 = 5;

/// What a run is of.
#[derive(Debug, Clone)]
pub struct RunRequest<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) machine: Machine,
    pub(super) kernel: &'a KernelId,
    pub(super) seed: u64,
    pub(super) shift: u8,
    pub(super) append: Vec<String>,
    pub(super) watch: Watch,
}

impl<'a> RunRequest<'a> {
    /// A run of a scenario on its own machine; `append` are more kernel parameters.
    ///
    /// # Errors
    /// The parameters cannot be given to a kernel.
    pub fn new(
        scenario: &'a Scenario,
        kernel: &'a KernelId,
        seed: u64,
        shift: Option<u8>,
        append: &[String],
    ) -> Result<RunRequest<'a>, Error> {
        let own = &scenario.machine;
        let parameters = own.parameters().iter().chain(append).cloned().collect();
        let distances = own.distances().map(<[_]>::to_vec);
        let machine = Machine::new(own.nodes().to_vec(), distances, parameters)?;
        let shift = shift.or(scenario.shift).unwrap_or(DEFAULT_SHIFT);
        Platform::new(Mode::Exact { shift }, Accelerator::Tcg)?;
        Ok(RunRequest {
            scenario,
            machine,
            kernel,
            seed,
            shift,
            append: append.to_vec(),
            watch: Watch::default(),
        })
    }

    /// The same on another machine.
    #[must_use]
    pub fn on_machine(mut self, machine: Machine) -> RunRequest<'a> {
        self.machine = machine;
        self
    }

    /// The same, watched. Watching changes the guest's instruction stream, so the verdict of
    /// such a run is evidence of nothing.
    #[must_use]
    pub fn watching(mut self, watch: Watch) -> RunRequest<'a> {
        self.watch = watch;
        self
    }

    /// The machine.
    pub(crate) fn machine(&self) -> &Machine {
        &self.machine
    }

    /// How it runs in exact mode.
    ///
    /// # Errors
    /// There is no such shift.
    pub(crate) fn exact_platform(&self) -> Result<Platform, Error> {
        let mode = Mode::Exact { shift: self.shift };
        Ok(Platform::new(mode, Accelerator::Tcg)?)
    }

    /// The plan that the guest gets.
    pub(super) fn plan(&self) -> Plan {
        Plan {
            watch: self.watch.clone(),
            ..self.scenario.plan(&self.machine, self.seed)
        }
    }

    /// What progress lines call the run.
    pub(super) fn title(&self) -> String {
        let RunRequest {
            scenario,
            kernel,
            seed,
            ..
        } = self;
        let watched = self.watched();
        format!("{} on {}, seed {seed}{watched}", scenario.name, kernel.name)
    }

    /// What the run's folder is called, behind the time.
    pub(super) fn folder_name(&self) -> String {
        format!(
            "{}-{}-seed{}{}",
            self.scenario.name.replace('/', "-"),
            self.kernel.name,
            self.seed,
            self.watched().replace(", ", "-").replace(' ', "-")
        )
    }

    fn watched(&self) -> &'static str {
        match &self.watch {
            watch if watch.coverage => ", counted by gcov",
            watch if !watch.events.is_empty() => ", traced",
            _ => "",
        }
    }
}
