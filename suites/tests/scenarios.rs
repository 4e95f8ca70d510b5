//! Shows the test runner one test for each scenario and kernel,
//! `<suite>::<scenario>::<kernel>`, made from the YAML files when it is started.
//!
//! A test is green when the kernel does what its definition expects, so that red means a
//! surprise in either direction. With `NUMALAB_KERNEL` (and `NUMALAB_BASE`) in the
//! environment the kernels are the user's own: a test is then a comparison, and red when it
//! says `broken` or `unclear`. Each test comes a second time as `...::live`.

mod bisecting;
mod checks;
mod comparisons;
mod exactness;
mod foreign;
mod matrix;
mod observation;
mod own;
mod vacuity;

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Trial};
use numalab::scenario::Scenario;
use numalab::workspace::{OwnKernels, Workspace};
use numalab_kernels::KernelSpec;

/// What all tests start from.
struct Bench {
    workspace: Workspace,
    scenarios: Vec<Scenario>,
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    numalab::ui::show_errors_plainly();
    match trials() {
        Ok(trials) => libtest_mimic::run(&arguments, trials).exit_code(),
        Err(report) => {
            // A scenario that cannot be read must not vanish from the list.
            eprintln!("{report:?}");
            ExitCode::from(2)
        }
    }
}

fn trials() -> miette::Result<Vec<Trial>> {
    let workspace = Workspace::open()?;
    let scenarios = workspace.project.scenarios(&[])?;
    let bench = Arc::new(Bench {
        workspace,
        scenarios,
    });
    if let Some(own) = OwnKernels::of(&bench.workspace.environment)? {
        return own::trials(&bench, &own);
    }
    let mut trials = matrix::trials(&bench)?;
    trials.extend(vacuity::trials(&bench)?);
    trials.extend(exactness::trials(&bench)?);
    trials.extend(comparisons::trials(&bench));
    trials.extend(foreign::trials(&bench));
    trials.extend(observation::trials(&bench));
    trials.extend(checks::trials(&bench));
    trials.extend(bisecting::trials(&bench));
    Ok(trials)
}

/// Whether a scenario applies to a kernel, as far as that is known before it is built.
fn applies(scenario: &Scenario, kernel: &KernelSpec) -> bool {
    kernel
        .release()
        .is_none_or(|release| scenario.does_not_apply(&release).is_none())
}
