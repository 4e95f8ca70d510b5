//! One scenario on one kernel with one seed: from a plan to a report in a folder.

mod clock;
mod firmware;
mod life;
mod remember;

use std::collections::BTreeMap;
use std::time::Instant;
use std::{io, iter};

use camino::{Utf8Path, Utf8PathBuf};
use numalab_kernels::Cache;
use numalab_kernels::cache::Part;
use numalab_protocol::plan::Watch;
use numalab_protocol::{Plan, Record, pages};
use tokio_util::sync::CancellationToken;

use crate::durations::Durations;
use crate::fault;
use crate::folder::RunFolder;
use crate::lab::{Lab, LabError, utf8};
use crate::machine::argv::{self, Boot, Monitor, Start, Surroundings};
use crate::machine::deadline::Deadlines;
use crate::machine::guest::{self, Event, GuestError, Limits};
use crate::machine::kvm;
use crate::machine::mode::{Accelerator, AcceleratorChoice, Mode, ModeError, Platform};
use crate::machine::outcome::{End, Outcome};
use crate::machine::qemu::Qemu;
use crate::machine::records::Records;
use crate::machine::topology::Machine;
use crate::observe::{Measurement, Observations};
use crate::proof::{Memory, Proofs};
use crate::report::{
    Inputs, KernelId, Life, PlanIn, Promise, Remembered, RunReport, SCHEMA, Times, text,
};
use crate::scenario::Scenario;
use crate::seats::{Need, Seats, Waiting};
use crate::snapshot::Snapshots;
use crate::spent::{Kind, Spent, Split};
use crate::ui::Ui;
use crate::unclean;
use crate::verdict::{Unclean, Verdict, counters, judge};
use clock::{Clock, ms};
use remember::Prepared;

/// How many of the console's last lines a report shows.
const TAIL: usize = 12;

/// Exact mode's shift where a scenario names none. 3 to 7 were tried on the shipped
/// workloads: 6 is little faster and scans less, 7 is slower again and scans too little.
pub const DEFAULT_SHIFT: u8 = 5;

/// What a run is of.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    scenario: &'a Scenario,
    machine: Machine,
    kernel: &'a KernelId,
    seed: u64,
    shift: u8,
    append: Vec<String>,
    watch: Watch,
}

impl<'a> Request<'a> {
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
    ) -> Result<Request<'a>, LabError> {
        let own = &scenario.machine;
        let parameters = own.parameters().iter().chain(append).cloned().collect();
        let distances = own.distances().map(<[_]>::to_vec);
        let machine = Machine::new(own.nodes().to_vec(), distances, parameters)?;
        let shift = shift.or(scenario.shift).unwrap_or(DEFAULT_SHIFT);
        Platform::new(Mode::Exact { shift }, Accelerator::Tcg)?;
        Ok(Request {
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
    pub fn on_machine(mut self, machine: Machine) -> Request<'a> {
        self.machine = machine;
        self
    }

    /// The same, watched. Watching changes the guest's instruction stream, so the verdict of
    /// such a run is evidence of nothing.
    #[must_use]
    pub fn watching(mut self, watch: Watch) -> Request<'a> {
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
    pub(crate) fn exact_platform(&self) -> Result<Platform, LabError> {
        let mode = Mode::Exact { shift: self.shift };
        Ok(Platform::new(mode, Accelerator::Tcg)?)
    }

    /// The plan that the guest gets.
    fn plan(&self) -> Plan {
        Plan {
            watch: self.watch.clone(),
            ..self.scenario.plan(&self.machine, self.seed)
        }
    }
}

/// A host whose QEMU fits the mode that is asked for.
#[derive(Debug)]
pub struct Checked {
    qemu: Qemu,
    live: bool,
    choice: AcceleratorChoice,
    image: numalab_images::Image,
    /// Its digest; `None` if it was not found.
    firmware: Option<String>,
    runs: Utf8PathBuf,
    probes: Utf8PathBuf,
    cache: Cache,
    seats: Seats,
    durations: Durations,
    spent: Spent,
    /// Saved guests; `None` if every guest is to boot cold.
    snapshots: Option<Snapshots>,
    /// Remembered results; `None` if nothing is remembered.
    proofs: Option<Proofs>,
}

/// What came of a run, before it is judged.
struct Ran {
    outcome: Result<Outcome, GuestError>,
    life: Life,
    times: Times,
    remembered: Option<Remembered>,
    promise: Option<Promise>,
}

/// A host that guests can be run on.
#[derive(Debug)]
pub struct Stand {
    checked: Checked,
    accelerator: Accelerator,
}

impl Stand {
    /// Checks what can be checked before a kernel is there.
    ///
    /// # Errors
    /// QEMU is missing or too old, or mode and accelerator contradict each other.
    pub fn check(lab: &Lab, live: bool, choice: AcceleratorChoice) -> Result<Checked, LabError> {
        let qemu = Qemu::find()?;
        if !live {
            choice.check(Mode::Exact {
                shift: DEFAULT_SHIFT,
            })?;
            qemu.require_exact()?;
        }
        let images = utf8(&lab.cache.part(Part::Images))?;
        let probes = utf8(&lab.cache.part(Part::Tools))?;
        let image = numalab_images::ensure(&images, &[])?;
        let firmware = firmware::digest(&qemu);
        Ok(Checked {
            qemu,
            live,
            choice,
            image,
            firmware,
            runs: lab.project.runs(),
            probes,
            // What the host's clock has to do with a guest cannot be saved.
            snapshots: (!live)
                .then(|| Snapshots::new(lab.cache.clone()).timed_by(lab.spent.clone())),
            proofs: None,
            seats: Seats::new(&lab.cache, None),
            durations: Durations::new(&lab.cache),
            spent: lab.spent.clone(),
            cache: lab.cache.clone(),
        })
    }

    /// How many guests can run at a time.
    pub fn cores(&self) -> usize {
        self.checked.seats.cores()
    }

    /// How the command's time was spent until now.
    pub fn split(&self) -> Split {
        self.checked.spent.split(self.cores())
    }

    /// How a request's guest runs.
    fn platform(&self, request: &Request<'_>) -> Result<Platform, ModeError> {
        let mode = match self.checked.live {
            true => Mode::Live,
            false => Mode::Exact {
                shift: request.shift,
            },
        };
        Platform::new(mode, self.accelerator)
    }

    /// Whether guests run in real time.
    pub fn is_live(&self) -> bool {
        self.checked.live
    }

    /// `exact` or `live`.
    pub fn mode_name(&self) -> &'static str {
        if self.checked.live { "live" } else { "exact" }
    }

    /// The accelerator that runs.
    pub fn accelerator_name(&self) -> String {
        self.accelerator.to_string()
    }

    /// SHA-256 of the initramfs.
    pub fn image_digest(&self) -> &str {
        &self.checked.image.digest
    }

    /// QEMU's version.
    pub fn qemu_version(&self) -> String {
        self.checked.qemu.version().to_string()
    }

    /// The initramfs of a kernel's guests: the file, and its digest.
    fn image<'a>(&'a self, kernel: &'a KernelId) -> (&'a Utf8Path, &'a str) {
        match &kernel.initramfs {
            Some(own) => (&own.path, &own.digest),
            None => (&self.checked.image.path, &self.checked.image.digest),
        }
    }

    fn inputs(&self, request: &Request<'_>) -> Inputs {
        Inputs {
            scenario: request.scenario.name.clone(),
            // From wherever a repetition is started.
            scenario_file: camino::absolute_utf8(&request.scenario.file)
                .unwrap_or_else(|_| request.scenario.file.clone()),
            kernel: request.kernel.clone(),
            image: self.image(request.kernel).1.to_owned(),
            qemu: self.checked.qemu.text().to_owned(),
            firmware: self
                .checked
                .firmware
                .clone()
                .unwrap_or_else(|| "unknown".into()),
            mode: self.mode_name().to_owned(),
            shift: (!self.checked.live).then_some(request.shift),
            accelerator: self.accelerator_name(),
            seed: request.seed,
            append: request.append.clone(),
            watch: request.watch.clone(),
            numalab: env!("CARGO_PKG_VERSION").to_owned(),
            contract: numalab_protocol::CONTRACT,
        }
    }

    /// Runs a guest to its end, or takes a remembered result, and judges it. The folder
    /// keeps everything.
    ///
    /// # Errors
    /// The folder cannot be written, or a signal came. What a guest does is no error, and
    /// neither is a host that cannot run it: such a run is inconclusive.
    pub async fn run(
        &self,
        request: &Request<'_>,
        ui: &Ui,
        cancel: &CancellationToken,
    ) -> Result<RunReport, LabError> {
        let Request {
            scenario,
            kernel,
            seed,
            ..
        } = request;
        let watched = match &request.watch {
            watch if watch.coverage => ", counted by gcov",
            watch if !watch.events.is_empty() => ", traced",
            _ => "",
        };
        let title = format!("{} on {}, seed {seed}{watched}", scenario.name, kernel.name);
        let name = format!(
            "{}-{}-seed{seed}{}",
            scenario.name.replace('/', "-"),
            kernel.name,
            watched.replace(", ", "-").replace(' ', "-")
        );
        let folder = RunFolder::create(&self.checked.runs, &name)?;
        let prepared = self.prepare(request, &title, &folder)?;
        let ran = self.prove(prepared, ui, cancel).await?;
        let report = self.report(request, ran, &folder);
        folder.write_json("report.json", &report)?;
        folder.write(
            "report.txt",
            text::runs(std::slice::from_ref(&report)).as_bytes(),
        )?;
        let verdict = report.judgement.verdict;
        let remembered = match &report.remembered {
            Some(remembered) => format!(" (remembered, proved {})", text::moment(&remembered.at)),
            None => String::new(),
        };
        ui.say(&format!("{verdict:12} {title}{remembered}"));
        if verdict != Verdict::Pass {
            ui.say(&format!("             {}", folder.path()));
        }
        Ok(report)
    }

    /// Runs a guest to its end.
    async fn guest(
        &self,
        prepared: &mut Prepared<'_>,
        ui: &Ui,
        cancel: &CancellationToken,
    ) -> Result<Ran, LabError> {
        let Prepared {
            request,
            title,
            boot,
            ..
        } = prepared;
        let before = Instant::now();
        let mut restored = self.restore(request, boot, ui, cancel).await?;
        let restore_ms = restored.as_ref().map(|_| ms(before.elapsed()));

        let plan = request.plan();
        let shift = (!self.checked.live).then_some(request.shift);
        let (deadlines, limits) = (Deadlines::for_plan(&plan, shift), Limits::STANDARD);
        let shown = ui.task(title);
        let need = Need {
            memory_mib: boot.machine.memory_mib(),
            alone: self.checked.live,
        };
        let on_wait = |waiting: &Waiting| {
            shown.stage("waits for its turn");
            ui.say(&format!("{title} waits: {waiting}"));
        };
        // Nothing that others wait for is begun from here on.
        let seat = self.checked.seats.take(need, on_wait, cancel).await;
        let seat = match seat {
            Ok(Some(seat)) => Ok(seat),
            Ok(None) => return Err(LabError::Interrupted),
            Err(error) => Err(error),
        };
        let (outcome, times) = loop {
            let seat = match &seat {
                Ok(seat) => seat,
                Err(error) => break (Err(error.clone().into()), Times::default()),
            };
            let going = self.checked.spent.begin(Kind::Guest);
            let mut clock = Clock::start();
            let on_event = |event: Event<'_>| {
                clock.event(&event);
                match event {
                    Event::Started { pid } => seat.is_process(pid),
                    Event::Stage(stage) => shown.stage(&stage.to_string()),
                    Event::Waiting(error) => ui.say(&format!("{title} waits: {error}")),
                    _ => {}
                }
            };
            let (qemu, cancel) = (&self.checked.qemu, cancel.clone());
            let outcome = guest::run(qemu, boot, &deadlines, &limits, on_event, cancel).await;
            drop(going);
            let refused = restored.take_if(|restored| self.refused(restored, &outcome, ui));
            if refused.is_none() {
                break (outcome, clock.times());
            }
            boot.start = Start::Cold;
        };
        drop((shown, seat));
        if cancel.is_cancelled() {
            return Err(LabError::Interrupted);
        }
        let (life, restore_ms) = match restored {
            Some(_) => (Life::Restored, restore_ms),
            None => (Life::Cold, None),
        };
        let cpu = outcome
            .as_ref()
            .map_or(0, |outcome| ms(outcome.cpu.total()));
        let ran = Ran {
            outcome,
            life,
            times: Times {
                restore_ms,
                qemu_cpu_ms: cpu,
                ..times
            },
            remembered: None,
            promise: None,
        };
        self.note_duration(request, &ran);
        Ok(ran)
    }

    /// Fills the folder with all that goes into the guest.
    fn prepare<'a>(
        &self,
        request: &'a Request<'a>,
        title: &'a str,
        folder: &'a RunFolder,
    ) -> Result<Prepared<'a>, LabError> {
        folder.write("scenario.yaml", request.scenario.text.as_bytes())?;
        folder.write_json("inputs.json", &self.inputs(request))?;
        let plan = request.plan();
        folder.write_json("plan.json", &plan)?;
        // That the plan fits was checked when the scenario was read; another machine's
        // topology may still be too much.
        let encoded = pages::encode(&plan).map_err(|error| {
            LabError::file("encode", &folder.file("plan.json"))(io::Error::other(error))
        })?;
        let files: Vec<Utf8PathBuf> = encoded
            .iter()
            .enumerate()
            .map(|(index, page)| folder.write(&format!("plan.page{index}"), page))
            .collect::<Result<_, _>>()?;
        let mut initrd = self.image(request.kernel).0.to_owned();
        if request.kernel.plan_in == PlanIn::Initramfs {
            let mut bytes = std::fs::read(&initrd).map_err(LabError::file("read", &initrd))?;
            bytes.extend(numalab_images::appended_plan(&encoded));
            initrd = folder.write("initramfs.cpio", &bytes)?;
        }
        let boot = Boot {
            machine: request.machine.clone(),
            platform: self.platform(request)?,
            kernel: request.kernel.path.clone(),
            initrd,
            pages: std::array::from_fn(|index| files[index].clone()),
            console: folder.file("console.log"),
            records: folder.file("records.jsonl"),
            start: Start::Cold,
        };
        // For a person: the same guest from cold, without anybody watching.
        let surroundings = Surroundings {
            sandbox: self.checked.qemu.sandbox(),
            monitor: Monitor::Nobody,
        };
        let program = self.checked.qemu.path().to_string_lossy().into_owned();
        let words = iter::once(program).chain(argv::arguments(&boot, surroundings));
        folder.write(
            "qemu-command.txt",
            format!("{}\n", shell_words::join(words)).as_bytes(),
        )?;
        Ok(Prepared {
            request,
            title,
            folder,
            boot,
            pages: encoded,
        })
    }

    fn report(&self, request: &Request<'_>, ran: Ran, folder: &RunFolder) -> RunReport {
        let Ran {
            outcome,
            life,
            times,
            remembered,
            promise,
        } = ran;
        let records = outcome.as_ref().map_or(&[][..], |outcome| &outcome.records);
        let plan = request.plan();
        let seen = Observations::new(&plan, records);
        let unclean = match &outcome {
            Ok(outcome) => unclean::of_outcome(outcome, self.checked.live),
            Err(error) => Some(Unclean {
                certain: false,
                what: text::sentence(error),
            }),
        };
        let ending = match &outcome {
            Ok(outcome) => format!("{}, in stage {}", outcome.end, outcome.stage),
            Err(error) => text::sentence(error),
        };
        // A guest that broke off, records that cannot be read, and two answers of one run say
        // nothing by counters.
        let is_broken = matches!(promise, Some(Promise::Broken { .. }));
        let counters = match &outcome {
            Ok(outcome)
                if outcome.is_whole() && !is_broken && seen.end.is_some_and(|end| end.complete) =>
            {
                Some(counters(request.scenario, &seen))
            }
            _ => None,
        };
        let faults = outcome.as_ref().map(fault::of_outcome);
        let host = match &outcome {
            Ok(outcome) => matches!(outcome.end, End::DiskFull { .. }).then(|| ending.clone()),
            Err(_) => Some(ending.clone()),
        };
        let mut judgement = judge(request.scenario, &seen, unclean);
        if let Some(Promise::Broken { what, .. }) = &promise {
            // Neither of two answers is one.
            judgement.doubt(format!(
                "exact mode's promise is broken, two runs of the same inputs differ: {what}"
            ));
        }
        let quiet = judgement.verdict != Verdict::Inconclusive;
        let console_tail = match &outcome {
            Ok(outcome) if !quiet && !outcome.is_whole() => {
                let first = outcome.last_lines.len().saturating_sub(TAIL);
                outcome.last_lines[first..].to_vec()
            }
            _ => Vec::new(),
        };
        let changed = |measurement: &Measurement| -> BTreeMap<String, i64> {
            measurement
                .vmstat()
                .into_iter()
                .filter(|(_, change)| *change != 0)
                .collect()
        };
        RunReport {
            schema: SCHEMA,
            inputs: self.inputs(request),
            life,
            remembered,
            promise,
            judgement,
            counters,
            faults: faults.unwrap_or_default(),
            tainted: seen.end.map(|end| end.tainted),
            boot_end_us: fault::boot_end_us(records),
            ending,
            host,
            measurements: seen
                .measures
                .iter()
                .map(|(name, measurement)| (name.clone(), changed(measurement)))
                .collect(),
            times: Times {
                guest_steps_ms: seen.work_ns / 1_000_000,
                ..times
            },
            facts: seen.facts,
            release: seen.release,
            console_tail,
            folder: folder.path().to_owned(),
        }
    }
}

/// The records that a run has kept in its folder.
///
/// # Errors
/// They cannot be read, or are damaged.
pub(crate) fn records(folder: &Utf8Path) -> Result<Vec<Record>, LabError> {
    let path = folder.join("records.jsonl");
    let bytes = std::fs::read(&path).map_err(LabError::file("read", &path))?;
    let mut records = Records::default();
    records
        .push(&bytes)
        .map_err(|error| LabError::file("read", &path)(io::Error::other(error)))?;
    Ok(records.into_records())
}

impl Checked {
    /// What results are a function of beside kernel, scenario and seed: versions and digests,
    /// on one line.
    pub fn identity(&self) -> String {
        format!(
            "numalab {}, contract {}, {}, firmware {}, guest image {}",
            env!("CARGO_PKG_VERSION"),
            numalab_protocol::CONTRACT,
            self.qemu.text(),
            self.firmware.as_deref().unwrap_or("unknown"),
            self.image.digest
        )
    }

    /// Boots every guest cold, if `cold`. The results are the same bytes.
    #[must_use]
    pub fn cold(mut self, cold: bool) -> Checked {
        self.snapshots.take_if(|_| cold);
        self
    }

    /// Remembers results, and takes those that `memory` says; unless this is called, every
    /// result is a guest's and nothing is kept. Live results are never remembered.
    #[must_use]
    pub fn remembering(mut self, memory: Memory) -> Checked {
        if !self.live {
            self.proofs = Some(Proofs::new(self.cache.clone(), memory));
        }
        self
    }

    /// Lets at least so many guests run at a time, if a number is given.
    #[must_use]
    pub fn jobs(mut self, jobs: Option<usize>) -> Checked {
        self.seats = Seats::new(&self.cache, jobs);
        let seats = self.seats.clone();
        self.snapshots = self.snapshots.map(|snapshots| snapshots.seated_by(seats));
        self
    }

    /// Chooses the accelerator, for which KVM may have to be probed with a kernel.
    ///
    /// # Errors
    /// KVM is demanded and cannot be used, or a signal came.
    pub async fn ready(
        self,
        kernel: &KernelId,
        ui: &Ui,
        cancel: &CancellationToken,
    ) -> Result<Stand, LabError> {
        let accelerator = if self.live {
            let probe = kvm::Probe {
                qemu: &self.qemu,
                kernel: &kernel.path,
                kernel_digest: &kernel.digest,
                initrd: &self.image.path,
                cache: &self.probes,
            };
            let chosen = kvm::choose(self.choice, Mode::Live, probe, cancel.clone()).await?;
            if let Some(because) = &chosen.fallback {
                ui.warn(&format!("live mode runs under TCG: {because}"));
            }
            chosen.platform.accelerator()
        } else {
            Accelerator::Tcg
        };
        let stand = Stand {
            accelerator,
            checked: self,
        };
        ui.say(&format!(
            "{} mode, accelerator {}, QEMU {}",
            stand.mode_name(),
            stand.accelerator,
            stand.qemu_version()
        ));
        if stand.checked.live {
            ui.say("live guests are not saved: each boots cold");
        }
        if stand.checked.proofs.is_some() && stand.checked.firmware.is_none() {
            ui.say("QEMU's firmware is not found, so no result is remembered");
        }
        Ok(stand)
    }
}
