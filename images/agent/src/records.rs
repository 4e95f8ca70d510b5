//! Records on the second UART.

use std::fs::{File, OpenOptions};
use std::io::Write;

use numalab_protocol::{Frame, Record};
use rustix::termios::{OptionalActions, tcdrain, tcgetattr, tcsetattr};

use crate::errno::{CallError, failed};

const PORT: &str = "/dev/ttyS1";

/// Why a record could not be sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RecordsError {
    #[error(transparent)]
    Port(#[from] CallError),
    #[error("record {seq} cannot be written as JSON")]
    Form {
        seq: u64,
        #[source]
        source: serde_json::Error,
    },
}

/// The port that carries records to the host.
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
            .map_err(failed(format!("{PORT} cannot be opened")))?;
        let set_up = || failed(format!("{PORT} cannot be set up"));
        let mut modes = tcgetattr(&port).map_err(set_up())?;
        modes.make_raw();
        // QEMU's UART ignores the speed, but the kernel sleeps by it while draining.
        modes.set_speed(115_200).map_err(set_up())?;
        tcsetattr(&port, OptionalActions::Now, &modes).map_err(set_up())?;
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
            .map_err(failed(format!("record {seq} cannot be written to {PORT}")))?;
        self.next += 1;
        Ok(())
    }

    /// Waits until everything has been transmitted, so that it does not overlap with the next
    /// measurement or with powering off.
    pub(crate) fn drain(&self) -> Result<(), RecordsError> {
        tcdrain(&self.port).map_err(failed(format!("{PORT} cannot be drained")))?;
        Ok(())
    }
}
