//! Bundles: one run as an archive that repeats it with QEMU alone.
//!
//! It contains everything that the run depends on except QEMU, which it names. Running it needs
//! nothing of numalab, and it contains no path of the machine on which it was made.

mod archive;
mod script;

use std::collections::BTreeMap;
use std::io;

use camino::{Utf8Path, Utf8PathBuf};
use miette::Diagnostic;
use numalab_kernels::Digest;
use numalab_kernels::cache::Part;
use numalab_kernels::spec::Origin;
use numalab_kernels::store::{Manifest, PatchRecord};
use numalab_protocol::{Plan, pages};

use crate::error::Error;
use crate::guest::argv::{self, Boot, HostOptions, Monitor, Start};
use crate::kernel_id::PlanIn;
use crate::report::RunReport;
use crate::run::RunRequest;
use crate::run::replay::{Kept, ReplayError};
use crate::scenario::{Observable, Scenario};
use crate::verdict::observe::Observations;
use crate::workspace::{Workspace, utf8};
use archive::Entry;

/// A bundle that was made.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Bundle {
    /// The archive.
    pub file: Utf8PathBuf,
    /// Its size in bytes.
    pub bytes: u64,
    /// What could not be put in, in words; the run can be repeated without it.
    pub left_out: Vec<String>,
}

/// Why there is no bundle.
#[derive(Debug, thiserror::Error, Diagnostic)]
pub enum BundleError {
    /// The folder is no run that can be repeated, or its kernel is gone.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Run(#[from] ReplayError),
    /// A file of the run is missing or cannot be understood.
    #[error("{file} cannot be read")]
    File {
        /// The file.
        file: Utf8PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The guest image is gone.
    #[error(
        "the guest image {digest} of this run is no longer in the cache, and this numalab has \
         another one: run the scenario again and bundle the new run"
    )]
    Image {
        /// Its digest.
        digest: String,
    },
    /// A file of the run is not what the guest got.
    #[error("{file} is damaged: it is not what the run's plan gives")]
    #[diagnostic(help("run the scenario again and bundle the new run"))]
    Page {
        /// The file.
        file: Utf8PathBuf,
    },
    /// The run was made by another command than this numalab would give.
    #[error(
        "the run was started with other QEMU options than this numalab uses: run the scenario \
         again and bundle the new run"
    )]
    Command,
    /// The archive cannot be written.
    #[error("{file} cannot be written")]
    Write {
        /// The archive.
        file: Utf8PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The scenario's machine cannot be had.
    #[error(transparent)]
    Workspace(Box<Error>),
}

impl From<Error> for BundleError {
    fn from(error: Error) -> BundleError {
        BundleError::Workspace(Box::new(error))
    }
}

/// Makes a bundle of a run's folder, into `output` or, without it, into that folder.
///
/// # Errors
/// The folder is none of a finished exact run, or something of the run is gone.
pub fn make(
    workspace: &Workspace,
    folder: &Utf8Path,
    output: Option<&Utf8Path>,
) -> Result<Bundle, BundleError> {
    let kept = Kept::read(folder)?;
    let inputs = &kept.inputs;
    let name = format!(
        "{}-{}-seed{}",
        inputs.scenario.replace('/', "-"),
        plain(&inputs.kernel.name),
        inputs.seed
    );
    let file = match output {
        Some(file) => file.to_owned(),
        None => folder.join(format!("{name}.tar.xz")),
    };
    let mut left_out = Vec::new();
    let entries = entries(workspace, folder, &kept, &mut left_out)?;
    let archive = archive::pack(&name, &entries).and_then(|archive| {
        std::fs::write(&file, &archive)?;
        Ok(archive.len() as u64)
    });
    let bytes = archive.map_err(|source| BundleError::Write {
        file: file.clone(),
        source,
    })?;
    Ok(Bundle {
        file,
        bytes,
        left_out,
    })
}

fn plain(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._+".contains(c);
    name.chars()
        .map(|c| if plain(c) { c } else { '-' })
        .take(80)
        .collect()
}

fn read(file: &Utf8Path) -> Result<Vec<u8>, BundleError> {
    std::fs::read(file).map_err(|source| BundleError::File {
        file: file.to_owned(),
        source,
    })
}

fn parse<T: serde::de::DeserializeOwned>(file: &Utf8Path) -> Result<T, BundleError> {
    serde_json::from_slice(&read(file)?).map_err(|error| BundleError::File {
        file: file.to_owned(),
        source: error.into(),
    })
}

/// Everything in the archive, by name.
fn entries(
    workspace: &Workspace,
    folder: &Utf8Path,
    kept: &Kept,
    left_out: &mut Vec<String>,
) -> Result<BTreeMap<String, Entry>, BundleError> {
    let mut entries = BTreeMap::new();
    let mut put = |name: &str, bytes: Vec<u8>| {
        entries.insert(name.to_owned(), Entry::file(bytes));
    };
    let kernel = &kept.inputs.kernel.path;
    let kernel_name = kernel.file_name().unwrap_or("vmlinux");
    put(kernel_name, read(kernel)?);
    let initramfs = match kept.inputs.kernel.plan_in {
        PlanIn::FwCfg => image(workspace, &kept.inputs.image)?,
        // The run has one of its own, with the plan.
        PlanIn::Initramfs => read(&folder.join("initramfs.cpio"))?,
    };
    put("initramfs.cpio", initramfs);
    // The guest read these and nothing else of the plan.
    let plan: Plan = parse(&folder.join("plan.json"))?;
    let encoded = pages::encode(&plan).unwrap_or_default();
    for index in 0..pages::COUNT {
        let page = format!("plan.page{index}");
        let file = folder.join(&page);
        let bytes = read(&file)?;
        if encoded.get(index) != Some(&bytes) {
            return Err(BundleError::Page { file });
        }
        put(&page, bytes);
    }
    for name in ["plan.json", "scenario.yaml"] {
        put(name, read(&folder.join(name))?);
    }
    put("expected/records.jsonl", kept.records.clone());
    put("expected/console.log", read(&folder.join("console.log"))?);

    let mut patches = Vec::new();
    match provenance(kernel) {
        Some((manifest, config)) => {
            put("kernel/config", config);
            let text = serde_json::to_vec_pretty(&manifest).unwrap_or_default();
            put("kernel/manifest.json", text);
            let records = manifest.built.map_or(Vec::new(), |built| built.patches);
            for (index, record) in records.iter().enumerate() {
                let name = format!("kernel/patches/{:04}-{}", index + 1, plain(&record.name));
                match patch(workspace, &kept.inputs.kernel.word, record) {
                    Some(bytes) => put(&name, bytes),
                    None => left_out.push(format!(
                        "the text of the patch {} ({}), which is not where it was",
                        record.name, record.digest
                    )),
                }
                patches.push(record.clone());
            }
        }
        None => left_out.push("the kernel's configuration, which is not known".into()),
    }

    let arguments = arguments(folder, kept, kernel_name)?;
    let plan: Plan = parse(&folder.join("plan.json"))?;
    let report: RunReport = parse(&folder.join("report.json"))?;
    let records = crate::run::records(folder)?;
    let seen = Observations::new(&plan, &records);
    put(
        "expected/counters",
        counters(&kept.scenario, &seen).into_bytes(),
    );
    let readme = script::readme(&report, &patches, left_out);
    put("README.txt", readme.into_bytes());
    let run = script::run(&kept.inputs, &arguments);
    entries.insert("run.sh".into(), Entry::program(run.into_bytes()));
    let sums: String = entries
        .iter()
        .map(|(name, entry)| format!("{}  {name}\n", Digest::of(&entry.bytes)))
        .collect();
    entries.insert("SHA256SUMS".into(), Entry::file(sums.into_bytes()));
    Ok(entries)
}

/// The guest image, from the cache or from this program.
fn image(workspace: &Workspace, digest: &str) -> Result<Vec<u8>, BundleError> {
    let is_it = |bytes: &Vec<u8>| Digest::of(bytes).to_string() == digest;
    let own = numalab_images::initramfs();
    if is_it(&own) {
        return Ok(own);
    }
    let short = digest.get(..16).unwrap_or(digest);
    let file = utf8(&workspace.cache.part(Part::Images))?.join(format!("initramfs-{short}.cpio"));
    match std::fs::read(&file) {
        Ok(bytes) if is_it(&bytes) => Ok(bytes),
        _ => Err(BundleError::Image {
            digest: digest.to_owned(),
        }),
    }
}

/// What the store knows of a kernel that lies in it, with its configuration.
fn provenance(kernel: &Utf8Path) -> Option<(Manifest, Vec<u8>)> {
    let manifest = std::fs::read(kernel.with_file_name("manifest.json")).ok()?;
    let config = std::fs::read(kernel.with_file_name("config")).ok()?;
    Some((serde_json::from_slice(&manifest).ok()?, config))
}

/// A patch's text, if the kernel's word still leads to it.
fn patch(workspace: &Workspace, word: &str, record: &PatchRecord) -> Option<Vec<u8>> {
    let wanted = workspace.wanted(word).ok()?;
    let Origin::Recipe(recipe) = wanted.origin else {
        return None;
    };
    let mut patches = recipe.patches.into_iter();
    patches
        .find(|patch| patch.digest() == record.digest)
        .map(|patch| patch.bytes)
}

/// QEMU's arguments, with the archive's own files.
fn arguments(folder: &Utf8Path, kept: &Kept, kernel: &str) -> Result<Vec<String>, BundleError> {
    let inputs = &kept.inputs;
    let request = RunRequest::new(
        &kept.scenario,
        &inputs.kernel,
        inputs.seed,
        inputs.shift,
        &inputs.append,
    )?;
    let boot = Boot {
        machine: request.machine().clone(),
        platform: request.exact_platform()?,
        kernel: kernel.into(),
        initrd: "initramfs.cpio".into(),
        pages: std::array::from_fn(|index| format!("plan.page{index}").into()),
        console: "out/console.log".into(),
        records: "out/records.jsonl".into(),
        start: Start::Cold,
    };
    let surroundings = HostOptions {
        // Not every QEMU has it, and the guest does not see it.
        sandbox: false,
        monitor: Monitor::Nobody,
    };
    let arguments = argv::arguments(&boot, surroundings);
    let file = folder.join("qemu-command.txt");
    let text = String::from_utf8_lossy(&read(&file)?).into_owned();
    let then = shell_words::split(&text).unwrap_or_default();
    if then.is_empty() || argv::without_paths(&then[1..]) != argv::without_paths(&arguments) {
        return Err(BundleError::Command);
    }
    Ok(arguments)
}

/// The counters that are shown: those of NUMA balancing and migration, and what the scenario
/// assertions of others. One line each: measurement, counter, difference.
fn counters(scenario: &Scenario, seen: &Observations) -> String {
    let assertions = scenario.guards.iter().chain(&scenario.expectations);
    let claimed: Vec<(&str, &str)> = assertions
        .filter_map(|assertion| match &assertion.observable {
            Observable::Counter { measure, name } => Some((measure.as_str(), name.as_str())),
            _ => None,
        })
        .collect();
    let mut text = String::new();
    for (measure, measurement) in &seen.measures {
        for (name, difference) in measurement.vmstat() {
            let ours = ["numa_", "pgmigrate_", "thp_migration_"];
            let shown = ours.iter().any(|start| name.starts_with(start)) && difference != 0;
            if shown || claimed.contains(&(measure.as_str(), name.as_str())) {
                text.push_str(&format!("{measure} {name} {difference}\n"));
            }
        }
    }
    text
}
