//! The `repeat:` line: the command line, written so that it means the same in any folder.

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};

/// Options that change no result: they say what is printed, or how fast.
const WITHOUT_EFFECT: [&str; 5] = ["json", "quiet", "jobs", "paste", "restart"];

/// The command line that this process was started with.
pub(super) struct CommandLine {
    command: Command,
    matches: ArgMatches,
}

impl CommandLine {
    pub(super) fn new(command: Command, matches: ArgMatches) -> CommandLine {
        CommandLine { command, matches }
    }

    /// The command line to be given in any folder. Paths of files and scenarios become
    /// absolute; `pinned` has the values of arguments that only their command can make so, by
    /// the argument's name.
    pub(super) fn repeat(&self, pinned: &[(&str, &[String])]) -> String {
        let mut words = vec![self.command.get_name().to_owned()];
        let (mut command, mut matches) = (&self.command, &self.matches);
        while let Some((name, inner)) = matches.subcommand() {
            words.push(name.to_owned());
            command = command.find_subcommand(name).unwrap_or(command);
            matches = inner;
        }
        let is_pinned = |id: &str| {
            pinned
                .iter()
                .any(|(name, values)| *name == id && !values.is_empty())
        };
        let given = |argument: &&Arg| {
            let id = argument.get_id().as_str();
            let is_given = || {
                matches.ids().any(|known| known == id)
                    && matches.value_source(id) == Some(ValueSource::CommandLine)
            };
            !WITHOUT_EFFECT.contains(&id) && (is_pinned(id) || is_given())
        };
        let mut arguments: Vec<&Arg> = command.get_arguments().filter(given).collect();
        arguments.sort_by_key(|argument| !argument.is_positional());
        for argument in arguments {
            let flag = argument.get_long().map(|long| format!("--{long}"));
            if matches!(argument.get_action(), ArgAction::SetTrue) {
                words.extend(flag);
                continue;
            }
            for value in values(argument, matches, pinned) {
                match &flag {
                    // clap takes a value that begins like an option only behind a `=`.
                    Some(flag) if value.starts_with('-') => words.push(format!("{flag}={value}")),
                    flag => {
                        words.extend(flag.clone());
                        words.push(value);
                    }
                }
            }
        }
        shell_words::join(words)
    }
}

fn values(argument: &Arg, matches: &ArgMatches, pinned: &[(&str, &[String])]) -> Vec<String> {
    let id = argument.get_id().as_str();
    if let Some((_, values)) = pinned.iter().find(|(name, _)| *name == id) {
        return values.to_vec();
    }
    let raw = matches.get_raw(id).into_iter().flatten();
    let values = raw.map(|value| value.to_string_lossy().into_owned());
    let kind = argument.get_value_names().and_then(|names| names.first());
    values
        .map(|value| match kind.map(|kind| kind.as_str()) {
            Some("FILE" | "DIR") => absolute(&value),
            Some("SCENARIO") if value.ends_with(".yaml") => absolute(&value),
            _ => value,
        })
        .collect()
}

/// A path from the file system's root.
pub(super) fn absolute(path: &str) -> String {
    let absolute = std::path::absolute(path).ok();
    absolute
        .and_then(|path| path.into_os_string().into_string().ok())
        .unwrap_or_else(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser};

    use super::*;

    #[derive(Debug, Parser)]
    #[command(name = "numalab")]
    enum Example {
        Try {
            #[arg(long)]
            base: String,
            #[arg(long, value_name = "FILE")]
            config: Option<String>,
            #[arg(long)]
            append: Vec<String>,
            #[arg(long, default_value_t = 3)]
            seeds: u64,
            #[arg(long)]
            each: bool,
            #[arg(long)]
            jobs: Option<u64>,
            #[arg(value_name = "SCENARIO")]
            scenarios: Vec<String>,
        },
    }

    #[test]
    fn the_line_means_the_same_in_any_folder() {
        let repeat = |words: &[&str]| {
            let all = ["numalab", "try"].iter().chain(words);
            let command = Example::command();
            let matches = command.clone().try_get_matches_from(all).unwrap();
            let line = CommandLine::new(command, matches);
            line.repeat(&[("base", &["/tree+/fix.patch".to_owned()])])
        };
        let here = std::env::current_dir().unwrap().display().to_string();
        assert_eq!(
            repeat(&["--base", "tree", "a/b"]),
            "numalab try a/b --base /tree+/fix.patch"
        );
        assert_eq!(
            repeat(&[
                "--base=tree",
                "--append=-x",
                "--append",
                "a b",
                "--config",
                "my.config",
                "--each",
                "--jobs",
                "2",
                "--seeds",
                "3",
                "own.yaml"
            ]),
            format!(
                "numalab try {here}/own.yaml --base /tree+/fix.patch --config {here}/my.config \
                 '--append=-x' --append 'a b' --seeds 3 --each"
            )
        );
    }
}
