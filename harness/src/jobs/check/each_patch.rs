//! Checks each patch of a series on top of those before it.

use numalab_kernels::{ErrorKind, KernelSpec};

use super::builder::Builder;
use super::options::CheckOptions;
use super::report::{Step, StepState};
use crate::error::Error;
use crate::error_chain::sentence;
use crate::guest::escape::escape;
use crate::jobs::comparison::{KernelPair, PatchedKernel, Results};
use crate::report::KernelId;
use crate::scenario::Scenario;
use crate::verdict::compare::Change;
use crate::workspace::BootKernel;

/// A patch with the kernel that it makes.
pub(super) struct BuiltPatch {
    step: Step,
    /// Held so that it is not pruned from the store before it has run.
    _kernel: Option<Box<BootKernel>>,
}

impl BuiltPatch {
    pub(super) fn kernel(&self) -> Option<&KernelId> {
        match &self.step.state {
            StepState::Built(kernel) => Some(kernel),
            StepState::NotBuilt(_) | StepState::NotApplied(_) => None,
        }
    }
}

/// Builds each patch on top of those before it. A patch with which the kernel does not build
/// is left out below the later ones, unless they make it build again.
pub(super) fn build(
    builder: &Builder<'_>,
    options: &CheckOptions<'_>,
    whole: &KernelPair,
) -> Result<Vec<BuiltPatch>, Error> {
    let count = options.series.patches.len();
    let mut patches = Vec::new();
    let mut left_out: Vec<usize> = Vec::new();
    for number in 1..=count {
        let patch = options.patch_id(number);
        let subject = escape(patch.subject.as_bytes());
        builder
            .ui
            .say(&format!("patch {number}/{count}: {subject}"));
        let mut kernel = None;
        let mut without = Vec::new();
        let mut state = if number == count {
            match &whole.patched {
                PatchedKernel::Built(kernel) => StepState::Built(Box::new(kernel.id.clone())),
                PatchedKernel::DoesNotCompile(why) => StepState::NotBuilt(why.clone()),
            }
        } else {
            let all: Vec<usize> = (1..=number).collect();
            build_step(builder, &options.patched(&all)?, &mut kernel)?
        };
        match state {
            StepState::NotBuilt(_) if !left_out.is_empty() => {
                let rest = (1..=number).filter(|number| !left_out.contains(number));
                let spec = options.patched(&rest.collect::<Vec<_>>())?;
                state = match build_step(builder, &spec, &mut kernel) {
                    // Without a patch that was left out, a later one need not apply.
                    Err(Error::Kernel(error)) if error.kind() == ErrorKind::Input => {
                        StepState::NotApplied(sentence(&error))
                    }
                    other => other?,
                };
                without.clone_from(&left_out);
            }
            StepState::NotBuilt(_) | StepState::NotApplied(_) => {}
            StepState::Built(_) => left_out.clear(),
        }
        let word = match &state {
            StepState::NotBuilt(_) => Change::Broken,
            _ => Change::Unclear,
        };
        if !matches!(state, StepState::Built(_)) {
            left_out.push(number);
        }
        patches.push(BuiltPatch {
            step: Step {
                patch,
                state,
                without,
                word,
                scenarios: Vec::new(),
            },
            _kernel: kernel,
        });
    }
    Ok(patches)
}

fn build_step(
    builder: &Builder<'_>,
    spec: &KernelSpec,
    kernel: &mut Option<Box<BootKernel>>,
) -> Result<StepState, Error> {
    Ok(match builder.build(spec)? {
        PatchedKernel::Built(built) => {
            let id = built.id.clone();
            *kernel = Some(built);
            StepState::Built(Box::new(id))
        }
        PatchedKernel::DoesNotCompile(why) => StepState::NotBuilt(why),
    })
}

/// Compares each patch's kernel with the one below it.
pub(super) fn compare(
    patches: &[BuiltPatch],
    base: &KernelId,
    results: Option<&Results>,
    scenarios: &[&Scenario],
) -> Vec<Step> {
    let mut below = base.clone();
    let mut steps = Vec::new();
    for patch in patches {
        let mut step = patch.step.clone();
        if let StepState::Built(kernel) = &step.state {
            if kernel.digest == below.digest {
                step.word = Change::ChangesNothing;
            } else if let Some(results) = results {
                step.scenarios = results.compare(&below, kernel, scenarios);
                let words = step.scenarios.iter().map(|compared| compared.word);
                step.word = words.min().unwrap_or(Change::Unclear);
            }
            below = (**kernel).clone();
        }
        steps.push(step);
    }
    steps
}
