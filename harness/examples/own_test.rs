//! Runs one scenario on one kernel and prints the verdict with what was measured.
//!
//! `cargo run --example own_test -- suites/vma/late-vma-scan.yaml linux-6.12`

use numalab::prelude::*;

#[tokio::main(flavor = "current_thread")]
async fn main() -> miette::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (Some(file), Some(kernel)) = (arguments.next(), arguments.next()) else {
        miette::bail!("usage: own_test SCENARIO.yaml KERNEL");
    };
    let scenario = Scenario::load(file.as_str().into())?;
    let runner = Workspace::open()?.runner(&kernel).await?;
    let report = runner.run(&scenario, 1).await?;
    println!(
        "{} on {}: {}",
        scenario.name,
        runner.kernel().release,
        report.judgement.verdict
    );
    for (measurement, counters) in &report.measurements {
        for (counter, change) in counters {
            println!("{measurement}: {counter} {change:+}");
        }
    }
    Ok(())
}
