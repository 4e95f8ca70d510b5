//! How a guest runs: its mode and its accelerator.
//!
//! Whether KVM can be used is not decided here but probed, in `kvm`.

use std::fmt;

/// Deterministic or in real time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// One instruction takes 2^`shift` nanoseconds of guest time, idle time is skipped, and
    /// the same inputs give the same counters.
    Exact {
        /// QEMU's `-icount shift`, 0 to [`MAX_SHIFT`].
        shift: u8,
    },
    /// Real time; runs differ.
    Live,
}

/// What executes the guest's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Accelerator {
    /// The host's processor.
    Kvm(KvmCpu),
    /// QEMU's translator.
    Tcg,
}

/// The CPU that a KVM guest is given. Some hosts refuse the first and take the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KvmCpu {
    /// `-cpu host`.
    Host,
    /// `-cpu max,migratable=off`.
    Max,
}

/// What the user asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcceleratorChoice {
    /// KVM if the probe finds it to work, else TCG, saying why.
    Auto,
    /// KVM or an error.
    Kvm,
    /// TCG.
    Tcg,
}

/// QEMU's limit of `-icount shift`.
pub const MAX_SHIFT: u8 = 10;

/// A mode and an accelerator that go together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Platform {
    mode: Mode,
    accelerator: Accelerator,
}

/// Why a mode and an accelerator do not go together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ModeError {
    /// Exact mode counts instructions, which KVM cannot.
    #[error(
        "exact mode and KVM contradict each other: exact mode counts every instruction, and \
         only TCG can (use live mode, or leave the accelerator out)"
    )]
    ExactNeedsTcg,
    /// More than [`MAX_SHIFT`].
    #[error("shift {shift} is not between 0 and {MAX_SHIFT}")]
    Shift {
        /// The shift.
        shift: u8,
    },
}

impl Platform {
    /// Checks that the two go together.
    pub fn new(mode: Mode, accelerator: Accelerator) -> Result<Platform, ModeError> {
        match (mode, accelerator) {
            (Mode::Exact { .. }, Accelerator::Kvm(_)) => Err(ModeError::ExactNeedsTcg),
            (Mode::Exact { shift }, _) if shift > MAX_SHIFT => Err(ModeError::Shift { shift }),
            _ => Ok(Platform { mode, accelerator }),
        }
    }

    /// The mode.
    pub fn mode(self) -> Mode {
        self.mode
    }

    /// The accelerator.
    pub fn accelerator(self) -> Accelerator {
        self.accelerator
    }
}

impl AcceleratorChoice {
    /// Refuses a choice that contradicts the mode, before anything is probed.
    pub fn check(self, mode: Mode) -> Result<(), ModeError> {
        match (self, mode) {
            (AcceleratorChoice::Kvm, Mode::Exact { .. }) => Err(ModeError::ExactNeedsTcg),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::Exact { .. } => "exact",
            Mode::Live => "live",
        })
    }
}

impl fmt::Display for Accelerator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Accelerator::Kvm(_) => "kvm",
            Accelerator::Tcg => "tcg",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_mode_and_kvm_contradict_each_other() {
        let exact = Mode::Exact { shift: 5 };
        let kvm = Accelerator::Kvm(KvmCpu::Host);
        assert_eq!(Platform::new(exact, kvm), Err(ModeError::ExactNeedsTcg));
        assert_eq!(
            AcceleratorChoice::Kvm.check(exact),
            Err(ModeError::ExactNeedsTcg)
        );
        assert_eq!(AcceleratorChoice::Auto.check(exact), Ok(()));
        assert!(Platform::new(Mode::Live, kvm).is_ok());
        assert!(Platform::new(exact, Accelerator::Tcg).is_ok());
    }

    #[test]
    fn a_shift_that_qemu_refuses_is_refused() {
        let exact = |shift| Platform::new(Mode::Exact { shift }, Accelerator::Tcg);
        assert!(exact(10).is_ok());
        assert_eq!(exact(11), Err(ModeError::Shift { shift: 11 }));
    }
}
