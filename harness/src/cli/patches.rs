//! The patches that a command line names, in words that mean the same in any folder. Mails that
//! come by standard input are kept in a run folder.

use std::io::Read as _;
use std::path::Path;

use camino::Utf8PathBuf;
use numalab_kernels::series;

use super::context::Context;
use super::exit::Failure;
use super::repeat::absolute;
use crate::error::Error;
use crate::run::folder::RunFolder;
use crate::workspace::Workspace;

/// More than any series has, so that a wrong pipe does not fill the memory.
const LARGEST: u64 = 64 << 20;

/// Where the mails of standard input are kept.
pub(super) type KeptInput = Option<Utf8PathBuf>;

/// Makes words for patches independent of the current folder. `-` becomes a file in a run
/// folder of that `name`, which is returned.
pub(super) async fn from_any_folder(
    words: &[String],
    name: &str,
    workspace: &Workspace,
    context: &Context,
) -> Result<(Vec<String>, KeptInput), Failure> {
    let here = workspace.here()?;
    let mut kept = None;
    let mut found = Vec::new();
    for word in words {
        found.push(match word.as_str() {
            "-" if kept.is_some() => {
                return Err(Failure::input(miette::miette!(
                    "`-` is given twice, and standard input can be read only once"
                )));
            }
            "-" => {
                let mails = standard_input(context).await?;
                let folder = RunFolder::create(&workspace.project.runs(), name)?;
                let file = folder.write("stdin.mbox", &mails)?;
                kept = Some(folder.path().to_owned());
                absolute(file.as_str())
            }
            word if !word.is_empty() && here.join(word).exists() => {
                absolute(here.join(word).as_str())
            }
            word => series::range_word(word, Path::new(&here)).unwrap_or_else(|| word.to_owned()),
        });
    }
    Ok((found, kept))
}

/// All of standard input. The first signal ends the wait for it.
async fn standard_input(context: &Context) -> Result<Vec<u8>, Failure> {
    context.ui.say("reading patches from standard input");
    let (sender, receiver) = tokio::sync::oneshot::channel();
    // A read cannot be cancelled. A plain thread, unlike the runtime's own, is not waited for
    // when the process ends.
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let result = std::io::stdin().take(LARGEST + 1).read_to_end(&mut bytes);
        // If nobody waits any more, nobody wants to know.
        let _ = sender.send(result.map(|_| bytes));
    });
    tokio::select! {
        read = receiver => {
            let read = read.unwrap_or_else(|_| Err(std::io::ErrorKind::UnexpectedEof.into()));
            Ok(read.map_err(Error::file("read", "standard input".into()))?)
        }
        () = context.cancel.cancelled() => Err(Failure::Interrupted),
    }
}
