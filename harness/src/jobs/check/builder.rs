//! Builds a check's kernels.

use numalab_kernels::KernelSpec;
use numalab_kernels::spec::Fragment;
use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::jobs::comparison::{KernelPair, PatchedKernel};
use crate::ui::Ui;
use crate::workspace::{Limits, Workspace};

#[derive(Debug, Clone, Copy)]
pub(super) struct Builder<'a> {
    pub(super) workspace: &'a Workspace,
    pub(super) limits: Limits,
    pub(super) ui: &'a Ui,
    pub(super) cancel: &'a CancellationToken,
}

impl Builder<'_> {
    pub(super) fn build(&self, spec: &KernelSpec) -> Result<PatchedKernel, Error> {
        let mut built =
            PatchedKernel::build(self.workspace, spec, self.limits, self.ui, self.cancel)?;
        if let PatchedKernel::Built(kernel) = &mut built
            && kernel.id.word.is_empty()
        {
            // Where no kernel spec means it, the image does.
            kernel.id.word = kernel.id.path.to_string();
        }
        Ok(built)
    }

    pub(super) fn pair(
        &self,
        base: &KernelSpec,
        patched: &KernelSpec,
    ) -> Result<KernelPair, Error> {
        match self.build(base)? {
            PatchedKernel::Built(kernel) => Ok(KernelPair {
                base: *kernel,
                patched: self.build(patched)?,
                patched_name: patched.name.clone(),
            }),
            PatchedKernel::DoesNotCompile(why) => Err(Error::Base {
                name: base.name.clone(),
                why,
            }),
        }
    }

    /// A shipped configuration fragment.
    pub(super) fn fragment(&self, name: &str) -> Result<Fragment, Error> {
        let kernels = self.workspace.project.kernels();
        let path = kernels.join("fragments").join(format!("{name}.config"));
        let text = std::fs::read_to_string(&path).map_err(Error::file("read", &path))?;
        Ok(Fragment {
            name: name.to_owned(),
            text,
        })
    }
}
