//! The end of a guest.

use rustix::system::{RebootCommand, reboot};

/// Powers the guest off. The kernel writes nothing back: there is no file system to lose.
pub(crate) fn off() -> ! {
    let Err(errno) = reboot(RebootCommand::PowerOff) else {
        // The kernel does not come back from it; were it to, sleeping is all that is left.
        wait_for_ever()
    };
    eprintln!("numalab-agent: the guest cannot be powered off: {errno}");
    wait_for_ever()
}

fn wait_for_ever() -> ! {
    loop {
        std::thread::park();
    }
}
