//! Runs the scenarios on debug kernels, which check themselves.

use numalab_kernels::KernelSpec;
use numalab_kernels::spec::{Fragment, Origin};
use tokio_util::sync::CancellationToken;

use super::builder::Builder;
use super::report::{Cleanliness, DebugPass};
use crate::error::Error;
use crate::guest::topology::{Machine, Node};
use crate::jobs::comparison::{KernelPair, PatchedKernel, Results, TestMatrix, seen};
use crate::run::{DEFAULT_SHIFT, Runner};
use crate::scenario::Scenario;
use crate::ui::Ui;
use crate::verdict::compare::{self, Change};

/// The configuration fragment of debug kernels.
const DEBUG: &str = "debug";

/// How much smaller exact mode's shift is for debug kernels: they need several times the
/// instructions for the same work, and at the scenario's own shift timer ticks would take
/// most of the guest's time.
const SLOWER: u8 = 2;

/// More memory for each node that has any, in MiB: KASAN's shadow and quarantine and
/// kmemleak's own objects take the guest's memory.
const EXTRA_MIB: u64 = 128;

/// By default KASAN reports once only; and a kmemleak that has switched itself off would
/// find no leak.
const PARAMETERS: [&str; 2] = ["kasan_multi_shot", "kmemleak=on"];

/// Builds both kernels with the debug fragment.
pub(super) fn build(
    builder: &Builder<'_>,
    base: &KernelSpec,
    patched: &KernelSpec,
) -> Result<KernelPair, Error> {
    let fragment = builder.fragment(DEBUG)?;
    builder.pair(&with(base, &fragment), &with(patched, &fragment))
}

fn with(spec: &KernelSpec, fragment: &Fragment) -> KernelSpec {
    let mut spec = spec.clone();
    if let Origin::Recipe(recipe) = &mut spec.origin {
        recipe.fragments.push(fragment.clone());
    }
    spec.name = format!("{} ({DEBUG})", spec.name);
    spec
}

/// Runs the scenarios on both kernels with the first seed, and compares the consoles alone.
pub(super) async fn run(
    runner: &Runner,
    kernels: &KernelPair,
    scenarios: &[&Scenario],
    matrix: &TestMatrix<'_>,
    ui: &Ui,
    cancel: &CancellationToken,
) -> Result<DebugPass, Error> {
    let seeds = &matrix.seeds[..matrix.seeds.len().min(1)];
    let mut pass = DebugPass {
        base: kernels.base.id.clone(),
        patched: kernels.patched.kernel().map(|kernel| kernel.id.clone()),
        not_built: match &kernels.patched {
            PatchedKernel::Built(_) => None,
            PatchedKernel::DoesNotCompile(why) => Some(why.clone()),
        },
        seeds: seeds.to_vec(),
        scenarios: Vec::new(),
    };
    let Some([base, patched]) = kernels.differing() else {
        return Ok(pass);
    };
    let mut append = matrix.append.to_vec();
    append.extend(PARAMETERS.map(str::to_owned));
    for scenario in scenarios {
        let scenario = &with_more_memory(scenario)?;
        let shift = matrix.shift.or(scenario.shift).unwrap_or(DEFAULT_SHIFT);
        let slower = TestMatrix {
            scenarios: std::slice::from_ref(scenario),
            seeds,
            shift: Some(shift.saturating_sub(SLOWER)),
            append: &append,
            budget: None,
            ..*matrix
        };
        let results =
            Results::get(runner, &[base, patched], &[scenario], &slower, ui, cancel).await?;
        for compared in results.compare(base, patched, &[scenario]) {
            let (word, faults) = match compared.word {
                Change::DoesNotApply => (Change::DoesNotApply, compare::Difference::default()),
                _ => compare::cleanliness(&seen(&compared.base), &seen(&compared.patched)),
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

fn with_more_memory(scenario: &Scenario) -> Result<Scenario, Error> {
    let mut scenario = scenario.clone();
    let machine = &scenario.machine;
    let node = |node: &Node| match node.memory_mib {
        0 => *node,
        memory_mib => Node {
            memory_mib: memory_mib + EXTRA_MIB,
            ..*node
        },
    };
    let nodes = machine.nodes().iter().map(node).collect();
    let distances = machine.distances().map(<[_]>::to_vec);
    scenario.machine = Machine::new(nodes, distances, machine.parameters().to_vec())?;
    Ok(scenario)
}
