//! Modules of the kernel that the image brings: loaded before anything else is done, for
//! without them there may be no port to speak through and no plan to read.
//!
//! Which they are, and in which order, was found out by the host.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;

use rustix::io::Errno;
use rustix::system::finit_module;

use crate::errno;

const FOLDER: &str = "/modules";

/// Why a module is not loaded.
#[derive(Debug, thiserror::Error)]
#[error("the module {name:?} cannot be loaded: {}", errno::text(.cause))]
pub(crate) struct ModuleError {
    name: OsString,
    cause: io::Error,
}

/// Loads all of them, in the order of their names; an image without any has no such folder.
pub(crate) fn load() -> Result<(), ModuleError> {
    let Ok(list) = fs::read_dir(FOLDER) else {
        return Ok(());
    };
    let mut paths: Vec<_> = list.flatten().map(|item| item.path()).collect();
    paths.sort();
    for path in paths {
        let fault = |cause| ModuleError {
            name: path.file_name().unwrap_or_default().to_owned(),
            cause,
        };
        let file = File::open(&path).map_err(fault)?;
        match finit_module(&file, c"", 0) {
            // EEXIST: it is there already.
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(fault(errno.into())),
        }
    }
    Ok(())
}
