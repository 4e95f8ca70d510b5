//! Kconfig text: whether an option exists, and what it depends on.
//!
//! It is read for messages only, line by line, from the top file on; what a
//! configuration comes out as is for the kernel's own `conf` to say.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use walkdir::{DirEntry, WalkDir};

use super::file::Config;
use crate::cache::CacheError;
use crate::digest::{Digest, Digester};
use crate::spelling;

/// What is known of some options.
#[derive(Debug, Default)]
pub(crate) struct Symbols(BTreeMap<String, Symbol>);

/// One option.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Symbol {
    /// Expressions that must hold, the surrounding menus' included.
    depends: Vec<String>,
    /// Conditions of its prompts; an empty one is a prompt without condition.
    prompts: Vec<String>,
    /// Its ranges, each maybe with a condition.
    ranges: Vec<String>,
    /// All options of the choice that it is one of.
    choice: Vec<String>,
}

/// Folders that have no Kconfig files of an x86 kernel.
const PASSED_OVER: [&str; 6] = [
    "Documentation",
    "tools",
    ".git",
    "LICENSES",
    "samples",
    "tests",
];

impl Symbols {
    /// Looks for `options` (with `CONFIG_`) in the Kconfig files of `source`.
    pub(crate) fn find<'a>(
        source: &Path,
        options: impl Iterator<Item = &'a str>,
    ) -> Result<Self, CacheError> {
        let wanted: BTreeSet<&str> = options
            .filter_map(|option| option.strip_prefix("CONFIG_"))
            .collect();
        let mut symbols = Self::default();
        let around = &mut Vec::new();
        include(source, "Kconfig", &wanted, around, &mut symbols.0, &[])?;
        Ok(symbols)
    }

    pub(crate) fn get(&self, option: &str) -> Option<&Symbol> {
        self.0.get(option.strip_prefix("CONFIG_")?)
    }
}

/// The digest of all that decides what options mean: Kconfig files, and the scripts
/// that they call.
pub(crate) fn digest(source: &Path) -> Result<Digest, CacheError> {
    let mut texts = Vec::new();
    walk(source, &mut |text| texts.push(Digest::of(text.as_bytes())))?;
    let scripts = source.join("scripts");
    for item in fs::read_dir(&scripts).into_iter().flatten().flatten() {
        let path = item.path();
        if path.is_file() {
            let text = fs::read(&path).map_err(|error| CacheError::io("read", path, error))?;
            texts.push(Digest::of(&text));
        }
    }
    // The order in which folders are listed means nothing.
    texts.sort_unstable();
    let mut digester = Digester::new();
    for text in texts {
        digester.field("text", text.to_string());
    }
    Ok(digester.finish())
}

/// The option of a source whose name is nearest to one that it does not have.
pub(crate) fn nearest(source: &Path, option: &str) -> Result<Option<String>, CacheError> {
    let mut names = BTreeSet::new();
    walk(source, &mut |text| {
        names.extend(text.lines().filter_map(|line| {
            let (word, name) = line.trim_start().split_once([' ', '\t'])?;
            ["config", "menuconfig"]
                .contains(&word)
                .then(|| format!("CONFIG_{}", name.trim()))
        }));
    })?;
    let nearest = spelling::nearest(option, names.iter().map(String::as_str));
    Ok(nearest.map(str::to_owned))
}

impl Symbol {
    /// The expressions that have to hold for a user to set it.
    pub(crate) fn needs(&self) -> Vec<&str> {
        let mut needs: Vec<&str> = self.depends.iter().map(String::as_str).collect();
        if !self.prompts.iter().any(String::is_empty) {
            needs.extend(self.prompts.iter().map(String::as_str));
        }
        needs.sort_unstable();
        needs.dedup();
        needs
    }

    /// Says what it depends on, with the values that these options have.
    pub(crate) fn explain(&self, name: &str, config: &Config) -> String {
        let needs = self.needs();
        let mut values = BTreeMap::new();
        let ranges = self.ranges.iter().map(String::as_str);
        for name in needs.iter().copied().chain(ranges).flat_map(names) {
            let value = config.value(&format!("CONFIG_{name}")).unwrap_or("n");
            values.insert(name, value);
        }
        let values: Vec<String> = values
            .into_iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let mut free = String::new();
        if !self.ranges.is_empty() {
            free = format!("; its range: {}", self.ranges.join(", "));
        }
        if self.prompts.is_empty() {
            free.push_str("; it has no prompt: only other options can select it");
        }
        let option = |name: &str| config.value(&format!("CONFIG_{name}")) == Some("y");
        if let Some(taken) = self.choice.iter().find(|name| option(name)) {
            free.push_str(&format!(
                "; of the choice that it is one of, CONFIG_{taken} was taken: to have that, set \
                 {name}=n besides"
            ));
        }
        match needs.as_slice() {
            [] => format!(" (it has no dependencies{free})"),
            needs => format!(
                " (its dependencies: {}; here {}{free})",
                needs.join(" && "),
                values.join(", ")
            ),
        }
    }
}

fn names(expression: &str) -> impl Iterator<Item = &str> {
    expression
        .split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
        .filter(|word| word.len() > 1 && word.starts_with(|first: char| first.is_ascii_uppercase()))
}

/// Reads all Kconfig files that an x86 kernel may have.
fn walk(root: &Path, read: &mut dyn FnMut(&str)) -> Result<(), CacheError> {
    let arch = root.join("arch");
    let has_some = |item: &DirEntry| {
        let name = item.file_name().to_string_lossy();
        let foreign = item.path().parent() == Some(&arch) && name != "x86";
        item.depth() == 0
            || !item.file_type().is_dir()
            || !(foreign || PASSED_OVER.contains(&name.as_ref()))
    };
    for item in WalkDir::new(root).into_iter().filter_entry(has_some) {
        let item = item.map_err(|error| CacheError::io("list", root, error.into()))?;
        if item.file_type().is_file() && item.file_name().as_bytes().starts_with(b"Kconfig") {
            let path = item.path();
            let bytes = fs::read(path).map_err(|error| CacheError::io("read", path, error))?;
            read(&String::from_utf8_lossy(&bytes));
        }
    }
    Ok(())
}

/// Reads one file and those that it includes, within the conditions of the blocks
/// around: `if` has one, `menu` and `choice` several.
fn include(
    source: &Path,
    name: &str,
    wanted: &BTreeSet<&str>,
    around: &mut Vec<Vec<String>>,
    symbols: &mut BTreeMap<String, Symbol>,
    trail: &[String],
) -> Result<(), CacheError> {
    let path = source.join(name);
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(CacheError::io("read", path, error)),
    };
    let text = String::from_utf8_lossy(&bytes);
    read(
        &text,
        wanted,
        around,
        symbols,
        &mut |name, around, symbols| {
            let name = name
                .replace("$(SRCARCH)", "x86")
                .replace("$(HEADER_ARCH)", "x86");
            if trail.contains(&name) {
                // Files that include each other in a circle.
                return Ok(());
            }
            let mut trail = trail.to_vec();
            trail.push(name.clone());
            include(source, &name, wanted, around, symbols, &trail)
        },
    )
}

/// What is done with a file that another one includes.
type Include<'a> = dyn FnMut(&str, &mut Vec<Vec<String>>, &mut BTreeMap<String, Symbol>) -> Result<(), CacheError>
    + 'a;

/// Reads one file's text, adding what it says of the `wanted` options.
fn read(
    text: &str,
    wanted: &BTreeSet<&str>,
    around: &mut Vec<Vec<String>>,
    symbols: &mut BTreeMap<String, Symbol>,
    include: &mut Include<'_>,
) -> Result<(), CacheError> {
    let mut current: Option<String> = None;
    let mut block_attributes = false;
    let mut choice: Option<Vec<String>> = None;
    for (keyword, rest) in statements(text) {
        let symbol = |symbols: &mut BTreeMap<String, Symbol>, add: &dyn Fn(&mut Symbol)| {
            if let Some(name) = &current {
                add(symbols.entry(name.clone()).or_default());
            }
        };
        match keyword.as_str() {
            "range" => symbol(symbols, &|symbol| symbol.ranges.push(rest.clone())),
            "depends" => {
                let need = rest.strip_prefix("on").unwrap_or(&rest).trim().to_owned();
                if current.is_some() {
                    symbol(symbols, &|symbol| symbol.depends.push(need.clone()));
                } else if block_attributes && let Some(block) = around.last_mut() {
                    block.push(need);
                }
            }
            "bool" | "tristate" | "string" | "int" | "hex" | "prompt" if rest.starts_with('"') => {
                let condition = rest.rsplit_once("\" if ");
                let condition = condition.map_or("", |(_, condition)| condition.trim());
                symbol(symbols, &|symbol| symbol.prompts.push(condition.to_owned()));
            }
            "config" | "menuconfig" => {
                block_attributes = false;
                current = wanted.get(rest.as_str()).map(|name| (*name).to_owned());
                if let Some(name) = &current {
                    let symbol = symbols.entry(name.clone()).or_default();
                    symbol.depends.extend(around.iter().flatten().cloned());
                }
                choice.iter_mut().for_each(|names| names.push(rest.clone()));
            }
            "if" | "menu" | "choice" | "endif" | "endmenu" | "endchoice" | "source" | "comment"
            | "mainmenu" => {
                current = None;
                block_attributes = matches!(keyword.as_str(), "menu" | "choice");
                match keyword.as_str() {
                    "if" => around.push(vec![rest]),
                    "menu" => around.push(Vec::new()),
                    "choice" => {
                        around.push(Vec::new());
                        choice = Some(Vec::new());
                    }
                    "endif" | "endmenu" => drop(around.pop()),
                    "endchoice" => {
                        around.pop();
                        let names = choice.take().unwrap_or_default();
                        for name in names.iter().filter(|name| wanted.contains(name.as_str())) {
                            let symbol = symbols.entry(name.clone()).or_default();
                            symbol.choice.clone_from(&names);
                        }
                    }
                    "source" => include(rest.trim_matches('"'), around, symbols)?,
                    _ => {}
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// The statements of a text, as keyword and rest, without help texts.
fn statements(text: &str) -> Vec<(String, String)> {
    let mut statements = Vec::new();
    // How far the help text is indented, once it has begun.
    let mut help: Option<Option<usize>> = None;
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let mut line = line.to_owned();
        while line.ends_with('\\') {
            line.pop();
            line.push_str(lines.next().unwrap_or_default().trim_start());
        }
        let trimmed = line.trim();
        let (keyword, rest) = trimmed.split_once([' ', '\t']).unwrap_or((trimmed, ""));
        if let Some(begun) = help {
            let indent = indent(&line);
            if keyword.is_empty() || indent >= begun.unwrap_or(1) {
                help = Some(begun.or((!keyword.is_empty()).then_some(indent)));
                continue;
            }
            help = None;
        }
        match keyword {
            "help" | "---help---" => help = Some(None),
            _ => statements.push((keyword.to_owned(), rest.trim().to_owned())),
        }
    }
    statements
}

/// How far a line is indented; a tab goes on to the next multiple of eight.
fn indent(line: &str) -> usize {
    line.chars()
        .take_while(|letter| matches!(letter, ' ' | '\t'))
        .fold(0, |column, letter| match letter {
            '\t' => (column / 8 + 1) * 8,
            _ => column + 1,
        })
}

/// Reads a text as a Kconfig file that includes itself.
#[cfg(test)]
pub(crate) fn fuzzing(text: &str) {
    let wanted = BTreeSet::from(["A", "B"]);
    let (mut around, mut symbols) = (Vec::new(), BTreeMap::new());
    let read = read(text, &wanted, &mut around, &mut symbols, &mut |_, _, _| {
        Ok(())
    });
    assert!(read.is_ok(), "nothing is included that could fail");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_told_though_its_options_are_indented_like_its_help() {
        let text = "choice\n\tprompt \"Frequency\"\n\thelp\n\t Words\n\n\t\tconfig no\n\n\
                    \tconfig HZ_250\n\t\tbool \"250\"\n\thelp\n\t Words\n\n\
                    \tconfig HZ_1000\n\t\tbool \"1000\"\n\t\tdepends on MMU\nendchoice\n\
                    config HZ\n\tint\n";
        assert_eq!(
            explain(text, "HZ_1000", "CONFIG_HZ_250=y\nCONFIG_MMU=y\n"),
            " (its dependencies: MMU; here MMU=y; of the choice that it is one of, CONFIG_HZ_250 \
             was taken: to have that, set CONFIG_HZ_1000=n besides)"
        );
        assert!(!explain(text, "HZ_1000", "CONFIG_MMU=y\n").contains("choice"));
        assert!(!explain(text, "HZ", "CONFIG_HZ_250=y\n").contains("choice"));
    }

    fn explain(text: &str, name: &str, config: &str) -> String {
        let mut symbols = BTreeMap::new();
        read(
            text,
            &BTreeSet::from([name]),
            &mut Vec::new(),
            &mut symbols,
            &mut |_, _, _| Ok(()),
        )
        .unwrap();
        symbols[name].explain(&format!("CONFIG_{name}"), &Config::parse(config))
    }

    const TEXT: &str = "\
menu \"Memory\"
\tdepends on MMU

config MIGRATION
\tbool \"Page migration\"
\tdefault y
\tdepends on (NUMA || MEMORY_HOTPLUG) && \\
\t\tMMU
\thelp
\t  Text that says
\t  depends on nothing

if EXPERT
config DEEP
\tbool \"Deep\" if DEBUG
endif

endmenu
config HIDDEN
\tbool

config COUNT
\tint \"Count\"
\trange 2 MANY if MMU
\tdepends on MMU
";

    #[test]
    fn conditions_of_including_files_count() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write(
            "Kconfig",
            "if OUTER\nsource \"arch/$(SRCARCH)/Kconfig\"\nendif\n",
        );
        // A loop ends as well.
        write(
            "arch/x86/Kconfig",
            "config INNER\n\tbool \"x\"\nsource \"arch/x86/Kconfig\"\nsource \"none\"\n",
        );
        let symbols = Symbols::find(folder.path(), ["CONFIG_INNER"].into_iter()).unwrap();
        assert_eq!(
            symbols
                .get("CONFIG_INNER")
                .unwrap()
                .explain("CONFIG_INNER", &Config::default()),
            " (its dependencies: OUTER; here OUTER=n)"
        );
    }

    #[test]
    fn dependencies_are_told_with_their_values() {
        assert_eq!(
            explain(
                TEXT,
                "MIGRATION",
                "CONFIG_MMU=y\n# CONFIG_NUMA is not set\n"
            ),
            " (its dependencies: (NUMA || MEMORY_HOTPLUG) && MMU && MMU; here \
             MEMORY_HOTPLUG=n, MMU=y, NUMA=n)"
        );
        assert_eq!(
            explain(TEXT, "DEEP", ""),
            " (its dependencies: DEBUG && EXPERT && MMU; here DEBUG=n, EXPERT=n, MMU=n)"
        );
        assert_eq!(
            explain(TEXT, "HIDDEN", ""),
            " (it has no dependencies; it has no prompt: only other options can select it)"
        );
        assert_eq!(
            explain(TEXT, "COUNT", "CONFIG_MANY=512\nCONFIG_MMU=y\n"),
            " (its dependencies: MMU; here MANY=512, MMU=y; its range: 2 MANY if MMU)"
        );
    }
}
