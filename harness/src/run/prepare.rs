//! Fills a run's folder with all that goes into its guest.

use std::{io, iter};

use camino::Utf8PathBuf;
use numalab_protocol::pages;

use crate::error::Error;
use crate::guest::argv::{self, Boot, HostOptions, Monitor, Start};
use crate::kernel_id::PlanIn;
use crate::run::folder::RunFolder;
use crate::run::request::RunRequest;
use crate::run::runner::Runner;

/// A run that is about to begin.
pub(super) struct Prepared<'a> {
    pub(super) request: &'a RunRequest<'a>,
    pub(super) title: String,
    pub(super) folder: RunFolder,
    pub(super) boot: Boot,
}

/// Makes the folder, and writes the scenario, the inputs, the plan and QEMU's command line.
pub(super) fn prepare<'a>(
    runner: &Runner,
    request: &'a RunRequest<'a>,
) -> Result<Prepared<'a>, Error> {
    let folder = RunFolder::create(&runner.builder.runs, &request.folder_name())?;
    folder.write("scenario.yaml", request.scenario.text.as_bytes())?;
    folder.write_json("inputs.json", &runner.inputs(request))?;
    let plan = request.plan();
    folder.write_json("plan.json", &plan)?;
    // That the plan fits was checked when the scenario was read; another machine's topology
    // may still be too much.
    let encoded = pages::encode(&plan).map_err(|error| {
        Error::file("encode", &folder.file("plan.json"))(io::Error::other(error))
    })?;
    let files: Vec<Utf8PathBuf> = encoded
        .iter()
        .enumerate()
        .map(|(index, page)| folder.write(&format!("plan.page{index}"), page))
        .collect::<Result<_, _>>()?;
    let mut initrd = runner.image(request.kernel).0.to_owned();
    if request.kernel.plan_in == PlanIn::Initramfs {
        let mut bytes = std::fs::read(&initrd).map_err(Error::file("read", &initrd))?;
        bytes.extend(numalab_images::appended_plan(&encoded));
        initrd = folder.write("initramfs.cpio", &bytes)?;
    }
    let boot = Boot {
        machine: request.machine.clone(),
        platform: runner.platform(request)?,
        kernel: request.kernel.path.clone(),
        initrd,
        pages: std::array::from_fn(|index| files[index].clone()),
        console: folder.file("console.log"),
        records: folder.file("records.jsonl"),
        start: Start::Cold,
    };
    // For a person: the same guest from cold, without a monitor.
    let options = HostOptions {
        sandbox: runner.builder.qemu.sandbox(),
        monitor: Monitor::Nobody,
    };
    let program = runner.builder.qemu.path().to_string_lossy().into_owned();
    let words = iter::once(program).chain(argv::arguments(&boot, options));
    let command = format!("{}\n", shell_words::join(words));
    folder.write("qemu-command.txt", command.as_bytes())?;
    Ok(Prepared {
        request,
        title: request.title(),
        folder,
        boot,
    })
}
