//! Records on the second UART.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};

use numalab_protocol::{Frame, Record};
use rustix::termios::{OptionalActions, tcdrain, tcgetattr, tcsetattr};

use crate::errno;

const PORT: &str = "/dev/ttyS1";

/// Why a record could not be sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RecordsError {
    #[error("{PORT} cannot be opened: {}", errno::text(.0))]
    Open(io::Error),
    #[error("{PORT} cannot be set up: {}", errno::text(.0))]
    SetUp(io::Error),
    #[error("record {seq} cannot be written as JSON")]
    Form {
        seq: u64,
        #[source]
        source: serde_json::Error,
    },
    #[error("record {seq} cannot be written to {PORT}: {}", errno::text(.cause))]
    Write { seq: u64, cause: io::Error },
}

/// The way out of the guest.
#[derive(Debug)]
pub(crate) struct Records {
    port: File,
    next: u64,
}

impl Records {
    /// Opens the port and makes it carry bytes as they are.
    pub(crate) fn open() -> Result<Self, RecordsError> {
        let port = OpenOptions::new()
            .read(true)
            .write(true)
            .open(PORT)
            .map_err(RecordsError::Open)?;
        let set_up = |errno: rustix::io::Errno| RecordsError::SetUp(errno.into());
        let mut modes = tcgetattr(&port).map_err(set_up)?;
        modes.make_raw();
        // QEMU's UART sends at any speed; the kernel's sleeps while draining depend on it.
        modes.set_speed(115_200).map_err(set_up)?;
        tcsetattr(&port, OptionalActions::Now, &modes).map_err(set_up)?;
        Ok(Records { port, next: 0 })
    }

    /// Sends one record.
    pub(crate) fn send(&mut self, record: Record) -> Result<(), RecordsError> {
        let seq = self.next;
        let line = Frame { seq, record }
            .to_line()
            .map_err(|source| RecordsError::Form { seq, source })?;
        self.port
            .write_all(line.as_bytes())
            .map_err(|cause| RecordsError::Write { seq, cause })?;
        self.next += 1;
        Ok(())
    }

    /// Waits until all that was sent has left, so that sending does not overlap with what is
    /// measured next, or with powering off.
    pub(crate) fn drain(&self) -> Result<(), RecordsError> {
        tcdrain(&self.port).map_err(|errno| RecordsError::Write {
            seq: self.next.saturating_sub(1),
            cause: errno.into(),
        })
    }
}
