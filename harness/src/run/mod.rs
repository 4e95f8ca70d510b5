//! One scenario on one kernel with one seed: from a plan to a report in a folder.

pub mod bundle;
pub mod cached_run;
pub mod inputs;
pub mod pool;
pub mod record_diff;
pub mod replay;
pub mod result;

pub(crate) mod folder;

mod builder;
mod cached;
mod clock;
mod conclude;
mod firmware;
mod request;
mod restore;

use std::time::Instant;
use std::{io, iter};

use camino::{Utf8Path, Utf8PathBuf};
use numalab_protocol::{Record, pages};
use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::guest::argv::{self, Boot, HostOptions, Monitor, Start};
use crate::guest::deadline::Deadlines;
use crate::guest::lifecycle::{self, GuestError, GuestEvent, Limits};
use crate::guest::mode::{Accelerator, Mode, ModeError, Platform};
use crate::guest::outcome::Outcome;
use crate::guest::records::Records;
use crate::guest::slots::{Need, Waiting};
use crate::kernel_id::{KernelId, PlanIn};
use crate::report::{RunReport, text};
use crate::run::folder::RunFolder;
use crate::run::inputs::Inputs;
use crate::run::result::{CachedResult, DeterminismCheck, StartedFrom, Times};
use crate::timing::{Activity, Timing};
use crate::ui::Ui;
use crate::verdict::Verdict;
pub use builder::RunnerBuilder;
use cached::Prepared;
use clock::{Clock, ms};
pub use request::RunRequest;

/// Exact mode's shift where a scenario names none. 3 to 7 were tried on the shipped
/// workloads: 6 is little faster and scans less, 7 is slower again and scans too little.
pub const DEFAULT_SHIFT: u8 = 5;

/// What came of a run, before it is judged.
struct Ran {
    outcome: Result<Outcome, GuestError>,
    started_from: StartedFrom,
    times: Times,
    cached: Option<CachedResult>,
    determinism: Option<DeterminismCheck>,
}

/// A host that guests can be run on.
#[derive(Debug)]
pub struct Runner {
    builder: RunnerBuilder,
    accelerator: Accelerator,
}

impl Runner {
    /// How many guests can run at a time.
    pub fn cores(&self) -> usize {
        self.builder.slots.cores()
    }

    /// How the command's time was spent until now.
    pub fn split(&self) -> Timing {
        self.builder.stopwatch.split(self.cores())
    }

    /// How a request's guest runs.
    fn platform(&self, request: &RunRequest<'_>) -> Result<Platform, ModeError> {
        let mode = match self.builder.live {
            true => Mode::Live,
            false => Mode::Exact {
                shift: request.shift,
            },
        };
        Platform::new(mode, self.accelerator)
    }

    /// Whether guests run in real time.
    pub fn is_live(&self) -> bool {
        self.builder.live
    }

    /// `exact` or `live`.
    pub fn mode_name(&self) -> &'static str {
        if self.builder.live { "live" } else { "exact" }
    }

    /// The accelerator that runs.
    pub fn accelerator_name(&self) -> String {
        self.accelerator.to_string()
    }

    /// SHA-256 of the initramfs.
    pub fn image_digest(&self) -> &str {
        &self.builder.image.digest
    }

    /// QEMU's version.
    pub fn qemu_version(&self) -> String {
        self.builder.qemu.version().to_string()
    }

    /// The initramfs of a kernel's guests: the file, and its digest.
    fn image<'a>(&'a self, kernel: &'a KernelId) -> (&'a Utf8Path, &'a str) {
        match &kernel.initramfs {
            Some(own) => (&own.path, &own.digest),
            None => (&self.builder.image.path, &self.builder.image.digest),
        }
    }

    fn inputs(&self, request: &RunRequest<'_>) -> Inputs {
        Inputs {
            scenario: request.scenario.name.clone(),
            // From wherever a repetition is started.
            scenario_file: camino::absolute_utf8(&request.scenario.file)
                .unwrap_or_else(|_| request.scenario.file.clone()),
            kernel: request.kernel.clone(),
            image: self.image(request.kernel).1.to_owned(),
            qemu: self.builder.qemu.text().to_owned(),
            firmware: self
                .builder
                .firmware
                .clone()
                .unwrap_or_else(|| "unknown".into()),
            mode: self.mode_name().to_owned(),
            shift: (!self.builder.live).then_some(request.shift),
            accelerator: self.accelerator_name(),
            seed: request.seed,
            append: request.append.clone(),
            watch: request.watch.clone(),
            numalab: env!("CARGO_PKG_VERSION").to_owned(),
            contract: numalab_protocol::CONTRACT,
        }
    }

    /// Runs a guest to its end, or takes a cached result, and judges it. The folder
    /// keeps everything.
    ///
    /// # Errors
    /// The folder cannot be written, or a signal came. What a guest does is no error, and
    /// neither is a host that cannot run it: such a run is inconclusive.
    pub async fn run(
        &self,
        request: &RunRequest<'_>,
        ui: &Ui,
        cancel: &CancellationToken,
    ) -> Result<RunReport, Error> {
        let RunRequest {
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
        let folder = RunFolder::create(&self.builder.runs, &name)?;
        let prepared = self.prepare(request, &title, &folder)?;
        let ran = self.prove(prepared, ui, cancel).await?;
        let report = self.report(request, ran, &folder);
        folder.write_json("report.json", &report)?;
        folder.write(
            "report.txt",
            text::runs(std::slice::from_ref(&report)).as_bytes(),
        )?;
        let verdict = report.judgement.verdict;
        let cached = match &report.cached {
            Some(cached) => format!(" (cached {})", text::moment(&cached.at)),
            None => String::new(),
        };
        ui.say(&format!("{verdict:12} {title}{cached}"));
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
    ) -> Result<Ran, Error> {
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
        let shift = (!self.builder.live).then_some(request.shift);
        let (deadlines, limits) = (Deadlines::for_plan(&plan, shift), Limits::STANDARD);
        let shown = ui.task(title);
        let need = Need {
            memory_mib: boot.machine.memory_mib(),
            alone: self.builder.live,
        };
        let on_wait = |waiting: &Waiting| {
            shown.stage("waits for its turn");
            ui.say(&format!("{title} waits: {waiting}"));
        };
        // Nothing that others wait for is begun from here on.
        let slot = self.builder.slots.take(need, on_wait, cancel).await;
        let slot = match slot {
            Ok(Some(slot)) => Ok(slot),
            Ok(None) => return Err(Error::Interrupted),
            Err(error) => Err(error),
        };
        let (outcome, times) = loop {
            let slot = match &slot {
                Ok(slot) => slot,
                Err(error) => break (Err(error.clone().into()), Times::default()),
            };
            let going = self.builder.stopwatch.begin(Activity::Guest);
            let mut clock = Clock::start();
            let on_event = |event: GuestEvent<'_>| {
                clock.event(&event);
                match event {
                    GuestEvent::Started { pid } => slot.is_process(pid),
                    GuestEvent::Stage(stage) => shown.stage(&stage.to_string()),
                    GuestEvent::Waiting(error) => ui.say(&format!("{title} waits: {error}")),
                    _ => {}
                }
            };
            let (qemu, cancel) = (&self.builder.qemu, cancel.clone());
            let outcome = lifecycle::run(qemu, boot, &deadlines, &limits, on_event, cancel).await;
            drop(going);
            let refused = restored.take_if(|restored| self.refused(restored, &outcome, ui));
            if refused.is_none() {
                break (outcome, clock.times());
            }
            boot.start = Start::Cold;
        };
        drop((shown, slot));
        if cancel.is_cancelled() {
            return Err(Error::Interrupted);
        }
        let (started_from, restore_ms) = match restored {
            Some(_) => (StartedFrom::Restored, restore_ms),
            None => (StartedFrom::Cold, None),
        };
        let cpu = outcome
            .as_ref()
            .map_or(0, |outcome| ms(outcome.cpu.total()));
        let ran = Ran {
            outcome,
            started_from,
            times: Times {
                restore_ms,
                qemu_cpu_ms: cpu,
                ..times
            },
            cached: None,
            determinism: None,
        };
        self.note_duration(request, &ran);
        Ok(ran)
    }

    /// Fills the folder with all that goes into the guest.
    fn prepare<'a>(
        &self,
        request: &'a RunRequest<'a>,
        title: &'a str,
        folder: &'a RunFolder,
    ) -> Result<Prepared<'a>, Error> {
        folder.write("scenario.yaml", request.scenario.text.as_bytes())?;
        folder.write_json("inputs.json", &self.inputs(request))?;
        let plan = request.plan();
        folder.write_json("plan.json", &plan)?;
        // That the plan fits was checked when the scenario was read; another machine's
        // topology may still be too much.
        let encoded = pages::encode(&plan).map_err(|error| {
            Error::file("encode", &folder.file("plan.json"))(io::Error::other(error))
        })?;
        let files: Vec<Utf8PathBuf> = encoded
            .iter()
            .enumerate()
            .map(|(index, page)| folder.write(&format!("plan.page{index}"), page))
            .collect::<Result<_, _>>()?;
        let mut initrd = self.image(request.kernel).0.to_owned();
        if request.kernel.plan_in == PlanIn::Initramfs {
            let mut bytes = std::fs::read(&initrd).map_err(Error::file("read", &initrd))?;
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
        let surroundings = HostOptions {
            sandbox: self.builder.qemu.sandbox(),
            monitor: Monitor::Nobody,
        };
        let program = self.builder.qemu.path().to_string_lossy().into_owned();
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
}

/// The records that a run has kept in its folder.
///
/// # Errors
/// They cannot be read, or are damaged.
pub(crate) fn records(folder: &Utf8Path) -> Result<Vec<Record>, Error> {
    let path = folder.join("records.jsonl");
    let bytes = std::fs::read(&path).map_err(Error::file("read", &path))?;
    let mut records = Records::default();
    records
        .push(&bytes)
        .map_err(|error| Error::file("read", &path)(io::Error::other(error)))?;
    Ok(records.into_records())
}
