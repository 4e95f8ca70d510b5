//! The passes beside the whole series: each patch by itself, and kernels that check
//! themselves.

use numalab_kernels::KernelSpec;
use numalab_kernels::spec::{Fragment, Origin};
use tokio_util::sync::CancellationToken;

use super::report::{Cleanliness, DebugPass, Step, StepState};
use super::{Attempt, CheckRequest, Workshop, patch_id, patched};
use crate::error::Error;
use crate::guest::topology::{Machine, Node};
use crate::jobs::comparison::{self, Results};
use crate::report::{KernelId, RunReport};
use crate::run::{DEFAULT_SHIFT, Runner};
use crate::scenario::Scenario;
use crate::ui::Ui;
use crate::verdict::compare::{self, Change};
use crate::workspace::BootKernel;

/// The fragment of kernels that check themselves.
const DEBUG: &str = "debug";

/// How much smaller exact mode's shift is for them: they need several times the
/// instructions for the same work, and at the scenario's own shift most of the guest's time
/// would go into its timer ticks.
const SLOWER: u8 = 2;

/// More memory for each node that has any, in MiB: KASAN's shadow, freed objects that it
/// holds back, and kmemleak's own objects come out of the guest's.
const ROOM_MIB: u64 = 128;

/// KASAN reports once, and then no more, unless it is told to; and a kmemleak that has
/// switched itself off is no proof that nothing leaks.
const PARAMETERS: [&str; 2] = ["kasan_multi_shot", "kmemleak=on"];

/// A patch of the series with the kernel that it makes.
pub(super) struct Layer {
    patch: super::PatchId,
    state: LayerState,
    without: Vec<usize>,
}

enum LayerState {
    Built(Built),
    NotBuilt(String),
    NotApplied(String),
}

enum Built {
    Anew(Box<BootKernel>),
    /// The kernel of the whole series.
    Whole(Box<KernelId>),
}

impl Built {
    fn id(&self) -> &KernelId {
        match self {
            Built::Anew(kernel) => &kernel.id,
            Built::Whole(id) => id,
        }
    }
}

impl Layer {
    /// The kernel, if it could be built.
    pub(super) fn kernel(&self) -> Option<&KernelId> {
        match &self.state {
            LayerState::Built(built) => Some(built.id()),
            LayerState::NotBuilt(_) | LayerState::NotApplied(_) => None,
        }
    }
}

/// Builds each patch on top of those before it. One with which the kernel does not build is
/// left out of what the later ones are put on, unless they make it build again.
pub(super) fn stack(
    workshop: &Workshop<'_>,
    request: &CheckRequest<'_>,
    base: &BootKernel,
    whole: &Attempt,
) -> Result<Vec<Layer>, Error> {
    let count = request.series.patches.len();
    let mut layers: Vec<Layer> = Vec::new();
    let mut left_out: Vec<usize> = Vec::new();
    let mut below = base.id.digest.clone();
    for number in 1..=count {
        let all: Vec<usize> = (1..=number).collect();
        let patch = patch_id(request.series, number);
        workshop.ui.say(&format!(
            "patch {number}/{count}: {}",
            crate::guest::escape::escape(patch.subject.as_bytes())
        ));
        // The whole series is known already.
        let attempt = if number == count {
            match whole {
                Ok(kernel) => LayerState::Built(Built::Whole(Box::new(kernel.id.clone()))),
                Err(why) => LayerState::NotBuilt(why.clone()),
            }
        } else {
            attempt(workshop, &patched(request, &all)?)?
        };
        let (state, without) = match attempt {
            LayerState::NotBuilt(why) if left_out.is_empty() => (LayerState::NotBuilt(why), vec![]),
            LayerState::NotBuilt(_) => {
                let rest: Vec<usize> = all
                    .into_iter()
                    .filter(|number| !left_out.contains(number))
                    .collect();
                let state = attempt_without(workshop, &patched(request, &rest)?)?;
                (state, left_out.clone())
            }
            built => {
                left_out.clear();
                (built, vec![])
            }
        };
        let layer = Layer {
            patch,
            state,
            without,
        };
        match layer.kernel() {
            Some(kernel) => below.clone_from(&kernel.digest),
            None => left_out.push(number),
        }
        layers.push(layer);
    }
    Ok(layers)
}

fn attempt(workshop: &Workshop<'_>, wanted: &KernelSpec) -> Result<LayerState, Error> {
    Ok(match workshop.build(wanted)? {
        Ok(kernel) => LayerState::Built(Built::Anew(Box::new(kernel))),
        Err(why) => LayerState::NotBuilt(why),
    })
}

/// Without a patch that was left out, a later one need not apply: that is an answer, too.
fn attempt_without(workshop: &Workshop<'_>, wanted: &KernelSpec) -> Result<LayerState, Error> {
    match attempt(workshop, wanted) {
        Err(Error::Kernel(error)) if error.kind() == numalab_kernels::ErrorKind::Input => {
            let why = crate::error_chain::sentence(&error);
            Ok(LayerState::NotApplied(why))
        }
        other => other,
    }
}

/// What came of each patch: compared with the kernel just below it.
pub(super) fn steps(
    layers: &[Layer],
    base: &KernelId,
    results: Option<&Results>,
    scenarios: &[&Scenario],
) -> Vec<Step> {
    let mut below = base;
    let mut steps = Vec::new();
    for layer in layers {
        let compared = match (layer.kernel(), results) {
            (Some(kernel), Some(results)) if kernel.digest != below.digest => {
                results.compared(below, kernel, scenarios)
            }
            _ => Vec::new(),
        };
        let (state, word) = match &layer.state {
            LayerState::NotBuilt(why) => (StepState::NotBuilt(why.clone()), Change::Broken),
            LayerState::NotApplied(why) => (StepState::NotApplied(why.clone()), Change::Unclear),
            LayerState::Built(built) => {
                let word = match built.id().digest == below.digest {
                    true => Change::ChangesNothing,
                    false => compared
                        .iter()
                        .map(|compared| compared.word)
                        .min()
                        .unwrap_or(Change::Unclear),
                };
                (StepState::Built(Box::new(built.id().clone())), word)
            }
        };
        steps.push(Step {
            patch: layer.patch.clone(),
            state,
            without: layer.without.clone(),
            word,
            scenarios: compared,
        });
        below = layer.kernel().unwrap_or(below);
    }
    steps
}

/// Both kernels, built to check themselves.
pub(super) struct DebugKernels {
    base: BootKernel,
    patched: Attempt,
}

/// Builds both kernels with the debug fragment.
pub(super) fn debug_kernels(
    workshop: &Workshop<'_>,
    request: &CheckRequest<'_>,
    whole: &KernelSpec,
) -> Result<DebugKernels, Error> {
    let fragment = workshop.fragment(DEBUG)?;
    let base = workshop
        .build(&with(request.base, &fragment))?
        .map_err(|why| Error::Base {
            name: format!("{}, built for debugging,", request.base.name),
            why,
        })?;
    let patched = workshop.build(&with(whole, &fragment))?;
    Ok(DebugKernels { base, patched })
}

fn with(wanted: &KernelSpec, fragment: &Fragment) -> KernelSpec {
    let mut wanted = wanted.clone();
    if let Origin::Recipe(recipe) = &mut wanted.origin {
        recipe.fragments.push(fragment.clone());
    }
    wanted.name = format!("{} ({DEBUG})", wanted.name);
    wanted
}

impl Workshop<'_> {
    /// A shipped fragment.
    fn fragment(&self, name: &str) -> Result<Fragment, Error> {
        let kernels = self.workspace.project.kernels();
        let path = kernels.join("fragments").join(format!("{name}.config"));
        let text = std::fs::read_to_string(&path).map_err(Error::file("read", &path))?;
        Ok(Fragment {
            name: name.to_owned(),
            text,
        })
    }
}

/// Runs the scenarios on both, with the first seed, and looks at the consoles alone.
pub(super) async fn debug_pass(
    runner: &Runner,
    kernels: &DebugKernels,
    scenarios: &[&Scenario],
    runs: &comparison::CompareRequest<'_>,
    ui: &Ui,
    cancel: &CancellationToken,
) -> Result<DebugPass, Error> {
    let base = &kernels.base.id;
    let seeds = &runs.seeds[..runs.seeds.len().min(1)];
    let mut pass = DebugPass {
        base: base.clone(),
        patched: None,
        not_built: None,
        seeds: seeds.to_vec(),
        scenarios: Vec::new(),
    };
    let patched = match &kernels.patched {
        Ok(kernel) => &kernel.id,
        Err(why) => {
            pass.not_built = Some(why.clone());
            return Ok(pass);
        }
    };
    pass.patched = Some(patched.clone());
    if patched.digest == base.digest {
        return Ok(pass);
    }
    let mut append = runs.append.to_vec();
    append.extend(PARAMETERS.map(str::to_owned));
    for scenario in scenarios {
        let scenario = &roomy(scenario)?;
        let shift = runs.shift.or(scenario.shift).unwrap_or(DEFAULT_SHIFT);
        let slower = comparison::CompareRequest {
            scenarios: std::slice::from_ref(scenario),
            seeds,
            shift: Some(shift.saturating_sub(SLOWER)),
            append: &append,
            jobs: runs.jobs,
            budget: None,
        };
        let kernels = [base, patched];
        let results = Results::get(runner, &kernels, &[scenario], &slower, ui, cancel).await?;
        for compared in results.compared(base, patched, &[scenario]) {
            let [before, after] = [&compared.base, &compared.patched]
                .map(|runs| runs.iter().map(RunReport::seen).collect::<Vec<_>>());
            let (word, faults) = match compared.word {
                Change::DoesNotApply => (Change::DoesNotApply, compare::Difference::default()),
                _ => compare::cleanliness(&before, &after),
            };
            pass.scenarios.push(Cleanliness {
                scenario: compared.scenario,
                word,
                faults,
                base: compared.base,
                patched: compared.patched,
            });
        }
    }
    Ok(pass)
}

/// A scenario on a machine with more memory.
fn roomy(scenario: &Scenario) -> Result<Scenario, Error> {
    let machine = &scenario.machine;
    let node = |node: &Node| match node.memory_mib {
        0 => *node,
        memory_mib => Node {
            memory_mib: memory_mib + ROOM_MIB,
            ..*node
        },
    };
    let nodes = machine.nodes().iter().map(node).collect();
    let distances = machine.distances().map(<[_]>::to_vec);
    let machine = Machine::new(nodes, distances, machine.parameters().to_vec())?;
    let mut roomy = scenario.clone();
    roomy.machine = machine;
    Ok(roomy)
}

/// The words of a second pass.
pub(super) fn words(pass: &DebugPass) -> Vec<Change> {
    match &pass.not_built {
        Some(_) => vec![Change::Broken],
        None => pass.scenarios.iter().map(|one| one.word).collect(),
    }
}
