//! What a result depends on: all that the guest can see.
//!
//! Where files lie, what a kernel or a scenario is called, and what a scenario expects are
//! not part of it.

use numalab_kernels::Digest;
use numalab_kernels::digest::Digester;
use numalab_protocol::{CONTRACT, WINDOW_NS, pages};

use crate::guest::argv::{self, Boot, HostOptions, Monitor};
use crate::guest::mode::Platform;
use crate::guest::topology::Machine;
use crate::kernel_id::PlanIn;
use crate::run::cached_run::SCHEMA;
use crate::run::request::RunRequest;
use crate::run::runner::Runner;

/// What a result depends on.
#[derive(Debug)]
pub(super) struct RunIdentity<'a> {
    machine: &'a Machine,
    platform: Platform,
    pages: Vec<Vec<u8>>,
    qemu: &'a str,
    firmware: &'a str,
    kernel: &'a str,
    image: &'a str,
    plan_in: PlanIn,
}

impl<'a> RunIdentity<'a> {
    /// That of a request; `None` if its mode or its plan is not possible, which running it
    /// reports.
    pub(super) fn of(runner: &'a Runner, request: &'a RunRequest<'_>) -> Option<RunIdentity<'a>> {
        let pages = pages::encode(&request.plan()).ok()?;
        RunIdentity::with_pages(runner, request, pages)
    }

    /// That of the guest before it reads its plan.
    pub(super) fn of_boot(
        runner: &'a Runner,
        request: &'a RunRequest<'_>,
    ) -> Option<RunIdentity<'a>> {
        RunIdentity::with_pages(runner, request, Vec::new())
    }

    /// That of a request whatever its seed and what it watches: durations hardly depend on
    /// these.
    pub(super) fn of_any_seed(
        runner: &'a Runner,
        request: &'a RunRequest<'_>,
    ) -> Option<RunIdentity<'a>> {
        let plan = request.scenario.plan(&request.machine, 0);
        RunIdentity::with_pages(runner, request, pages::encode(&plan).ok()?)
    }

    fn with_pages(
        runner: &'a Runner,
        request: &'a RunRequest<'_>,
        pages: Vec<Vec<u8>>,
    ) -> Option<RunIdentity<'a>> {
        let builder = &runner.builder;
        Some(RunIdentity {
            machine: &request.machine,
            platform: runner.platform(request).ok()?,
            pages,
            qemu: builder.qemu.text(),
            firmware: builder.firmware.as_deref().unwrap_or_default(),
            kernel: &request.kernel.digest,
            image: runner.image(request.kernel).1,
            plan_in: request.kernel.plan_in,
        })
    }

    /// The name of the result in the cache.
    pub(super) fn key(&self) -> Digest {
        let mut digester = Digester::new();
        digester
            .field("schema", SCHEMA.to_string())
            .field("contract", CONTRACT.to_string())
            .field("window", WINDOW_NS.to_string())
            .field("qemu", self.qemu)
            .field("firmware", self.firmware)
            .field("kernel", self.kernel)
            .field("image", self.image)
            .field("plan-in", format!("{:?}", self.plan_in));
        self.add_guest(&mut digester);
        digester.finish()
    }

    /// The digest of what the guest does and where, whatever kernel does it under whatever
    /// QEMU.
    pub(super) fn shape(&self) -> Digest {
        let mut digester = Digester::new();
        self.add_guest(&mut digester);
        digester.finish()
    }

    fn add_guest(&self, digester: &mut Digester) {
        // Those of a cold boot, which restored guests are equal to.
        let boot = Boot::canonical(self.machine.clone(), self.platform);
        let options = HostOptions {
            sandbox: false,
            monitor: Monitor::Nobody,
        };
        for argument in argv::arguments(&boot, options) {
            digester.field("argument", argument);
        }
        for page in &self.pages {
            digester.field("page", page);
        }
    }
}
