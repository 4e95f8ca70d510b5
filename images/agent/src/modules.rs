//! Loads the kernel modules of the image. This comes first: without them there may be no
//! port for records and no plan to read.
//!
//! The host chooses the modules and their order.

use std::fs::{self, File};

use rustix::io::Errno;
use rustix::system::finit_module;

use crate::errno::{CallError, failed};

const FOLDER: &str = "/modules";

/// Loads all modules in the order of their names. An image without any has no such folder.
pub(crate) fn load() -> Result<(), CallError> {
    let Ok(list) = fs::read_dir(FOLDER) else {
        return Ok(());
    };
    let mut paths: Vec<_> = list.flatten().map(|item| item.path()).collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().unwrap_or_default();
        let what = format!("the module {name:?} cannot be loaded");
        let file = File::open(&path).map_err(failed(&what))?;
        match finit_module(&file, c"", 0) {
            // EEXIST: it is already loaded.
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(failed(what)(errno)),
        }
    }
    Ok(())
}
