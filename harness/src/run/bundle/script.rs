//! The texts of a bundle: how it is run, and what it is.

use std::fmt::Write as _;

use numalab_kernels::spec::Direction;
use numalab_kernels::store::PatchRecord;

use crate::guest::escape::escape;
use crate::report::RunReport;
use crate::run::inputs::Inputs;

/// The script's end, which does not depend on the run: POSIX sh, sed and coreutils.
const CHECK: &str = include_str!("check.sh");

/// The script that repeats the run and compares its records with the kept ones.
pub(super) fn run(inputs: &Inputs, arguments: &[String]) -> String {
    let mut text = String::from("#!/bin/sh\n# Repeats this run with QEMU alone; see README.txt.\n");
    let _ = writeln!(
        text,
        "set -eu\ncd \"$(dirname \"$0\")\"\nqemu=${{QEMU:-qemu-system-x86_64}}\nthen={}",
        shell_words::quote(inputs.qemu.lines().next().unwrap_or_default())
    );
    text.push_str("\nguest() {\n    timeout 3600 \"$qemu\"");
    for argument in arguments {
        let option = argument.starts_with('-');
        text.push_str(if option { " \\\n        " } else { " " });
        text.push_str(&shell_words::quote(argument));
    }
    text.push_str(" </dev/null\n}\n\n");
    text.push_str(CHECK);
    text
}

/// The description of the bundle, for its recipient.
pub(super) fn readme(report: &RunReport, patches: &[PatchRecord], left_out: &[String]) -> String {
    let inputs = &report.inputs;
    let mut text = format!(
        "One run of numalab: the scenario {} on the kernel {}, seed {}.\n\n    sh run.sh\n\n\
         repeats it with QEMU alone, shows its counters, and reports whether the guest's \
         records are\nthe same bytes. It needs QEMU {}\n(QEMU=... names another program), a POSIX shell, sed \
         and coreutils; no KVM, no root.\nThe digits are a function of QEMU's version and \
         firmware, too: others may give others.\nThe exit code is 0 if the records are \
         identical, 1 if not, 3 if the run cannot be made or QEMU\nis another one and they \
         differ.\n\n",
        escape(inputs.scenario.as_bytes()),
        escape(inputs.kernel.name.as_bytes()),
        inputs.seed,
        escape(inputs.qemu.as_bytes()),
    );
    let _ = writeln!(
        text,
        "verdict: {}\nkernel:  Linux {}, SHA-256 {}",
        report.judgement.verdict,
        escape(inputs.kernel.release.as_bytes()),
        inputs.kernel.digest
    );
    if let Some(source) = &inputs.kernel.source {
        let _ = writeln!(text, "source:  {}", escape(source.as_bytes()));
    }
    for patch in patches {
        let way = match patch.direction {
            Direction::Apply => "patch: ",
            Direction::Revert => "revert:",
        };
        let name = escape(patch.name.as_bytes());
        let _ = writeln!(text, "{way}  {name}, SHA-256 {}", patch.digest);
    }
    let _ = writeln!(text, "image:   SHA-256 {}", inputs.image);
    let assertions = [
        ("guards", &report.judgement.guards),
        ("expectations", &report.judgement.expectations),
    ];
    for (what, assertions) in assertions {
        let _ = writeln!(text, "\n{what}:");
        for assertion in assertions {
            let _ = writeln!(text, "  {}", escape(assertion.to_string().as_bytes()));
        }
    }
    if !left_out.is_empty() {
        text.push_str("\nnot in here:\n");
        for what in left_out {
            let _ = writeln!(text, "  {}", escape(what.as_bytes()));
        }
    }
    text
}
