//! One scenario on one kernel with one seed: from a plan to a report in a folder.

mod checked;
mod clock;
mod conclude;
mod firmware;
mod life;
mod remember;
mod request;

use std::time::Instant;
use std::{io, iter};

use camino::{Utf8Path, Utf8PathBuf};
use numalab_protocol::{Record, pages};
use tokio_util::sync::CancellationToken;

use crate::folder::RunFolder;
use crate::lab::LabError;
use crate::machine::argv::{self, Boot, Monitor, Start, Surroundings};
use crate::machine::deadline::Deadlines;
use crate::machine::guest::{self, Event, GuestError, Limits};
use crate::machine::mode::{Accelerator, Mode, ModeError, Platform};
use crate::machine::outcome::Outcome;
use crate::machine::records::Records;
use crate::report::{Inputs, KernelId, Life, PlanIn, Promise, Remembered, RunReport, Times, text};
use crate::seats::{Need, Waiting};
use crate::spent::{Kind, Split};
use crate::ui::Ui;
use crate::verdict::Verdict;
pub use checked::Checked;
use clock::{Clock, ms};
use remember::Prepared;
pub use request::Request;

/// Exact mode's shift where a scenario names none. 3 to 7 were tried on the shipped
/// workloads: 6 is little faster and scans less, 7 is slower again and scans too little.
pub const DEFAULT_SHIFT: u8 = 5;

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
