//! Powering off.

use rustix::system::{RebootCommand, reboot};

/// Powers the guest off. The kernel writes nothing back: there is no file system to lose.
pub(crate) fn off() -> ! {
    // On success the call does not return.
    if let Err(errno) = reboot(RebootCommand::PowerOff) {
        eprintln!("numalab-agent: the guest cannot be powered off: {errno}");
    }
    loop {
        std::thread::park();
    }
}
