//! The modules of a crate form no circle: no file uses one that uses it, directly or through
//! others.
//!
//! A file uses another if it names an item that is defined there. Declarations of modules and
//! public re-exports do not count.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::{Attribute, Item, UseTree, Visibility};

/// The crates' root files.
const CRATES: &[&str] = &[
    "harness/src/lib.rs",
    "images/agent/src/main.rs",
    "images/protocol/src/lib.rs",
    "images/src/lib.rs",
    "kernels/src/lib.rs",
];

type Names = Vec<String>;

enum Name {
    Item,
    Module,
    Import(Names),
}

#[derive(Default)]
struct Module {
    file: PathBuf,
    names: BTreeMap<String, Name>,
    globs: Vec<Names>,
    /// Public re-exports: a use only if the file names them itself.
    exports: BTreeSet<String>,
    uses: Vec<Names>,
}

/// The modules of one crate, by path.
#[derive(Default)]
struct Crate(BTreeMap<Names, Module>);

enum Target {
    Module(Names),
    Item(PathBuf, String),
}

/// From a file to a file: the names that it uses.
type Edges = BTreeMap<PathBuf, BTreeMap<PathBuf, BTreeSet<String>>>;

impl Crate {
    fn read(root: &Path) -> Self {
        let mut modules = Self::default();
        modules.file(Vec::new(), root, root.parent().unwrap());
        modules
    }

    /// Reads a file; files of child modules lie in `folder`.
    fn file(&mut self, module: Names, file: &Path, folder: &Path) {
        let text = fs::read_to_string(file).unwrap();
        let items = syn::parse_file(&text).unwrap().items;
        self.items(module, file, folder, items);
    }

    fn items(&mut self, module: Names, file: &Path, folder: &Path, items: Vec<Item>) {
        let mut found = Module {
            file: file.to_owned(),
            ..Module::default()
        };
        for item in items {
            if is_test(attributes(&item)) {
                continue;
            }
            match item {
                Item::Mod(child) => {
                    let name = child.ident.to_string();
                    let path = [module.clone(), vec![name.clone()]].concat();
                    let below = folder.join(&name);
                    match child.content {
                        Some((_, items)) => self.items(path, file, &below, items),
                        None => {
                            let flat = folder.join(format!("{name}.rs"));
                            let nested = below.join("mod.rs");
                            let file = if flat.exists() { flat } else { nested };
                            self.file(path, &file, &below);
                        }
                    }
                    found.names.insert(name, Name::Module);
                }
                Item::Use(item) => {
                    let exported = !matches!(item.vis, Visibility::Inherited);
                    found.import(Vec::new(), item.tree, exported);
                }
                item => {
                    if let Some(name) = name(&item) {
                        // A function may have a module's name; a longer path means the module.
                        found.names.entry(name).or_insert(Name::Item);
                    }
                    found.scan(item.into_token_stream());
                }
            }
        }
        self.0.insert(module, found);
    }

    /// What a path means that stands in the module `at`; `None` for another crate's.
    fn resolve(&self, at: &[String], path: &[String], depth: usize) -> Option<Target> {
        let (first, rest) = path.split_first()?;
        let start = match first.as_str() {
            "crate" => Vec::new(),
            "self" => at.to_vec(),
            "super" => at.split_last()?.1.to_vec(),
            _ => return self.walk(at.to_vec(), path, depth),
        };
        self.walk(start, rest, depth)
    }

    fn walk(&self, at: Names, path: &[String], depth: usize) -> Option<Target> {
        let Some((first, rest)) = path.split_first() else {
            return Some(Target::Module(at));
        };
        if first == "super" {
            return self.walk(at.split_last()?.1.to_vec(), rest, depth);
        }
        if depth > 20 {
            return None;
        }
        let module = self.0.get(&at)?;
        match module.names.get(first) {
            Some(Name::Item) => Some(Target::Item(module.file.clone(), first.clone())),
            Some(Name::Module) => self.walk([at, vec![first.clone()]].concat(), rest, depth),
            Some(Name::Import(import)) => match self.resolve(&at, import, depth + 1)? {
                Target::Module(found) => self.walk(found, rest, depth + 1),
                item => Some(item),
            },
            None => {
                module
                    .globs
                    .iter()
                    .find_map(|glob| match self.resolve(&at, glob, depth + 1)? {
                        Target::Module(found) if found != at => self.walk(found, path, depth + 1),
                        _ => None,
                    })
            }
        }
    }

    fn edges(&self, edges: &mut Edges) {
        for (at, module) in &self.0 {
            for path in &module.uses {
                if let Some(Target::Item(file, name)) = self.resolve(at, path, 0)
                    && file != module.file
                {
                    let from = edges.entry(module.file.clone()).or_default();
                    from.entry(file).or_default().insert(name);
                }
            }
        }
    }
}

impl Module {
    fn import(&mut self, mut path: Names, tree: UseTree, exported: bool) {
        match tree {
            UseTree::Path(tree) => {
                path.push(tree.ident.to_string());
                self.import(path, *tree.tree, exported);
            }
            UseTree::Name(tree) => {
                let name = tree.ident.to_string();
                self.name(path, &name, &name, exported);
            }
            UseTree::Rename(tree) => {
                self.name(
                    path,
                    &tree.ident.to_string(),
                    &tree.rename.to_string(),
                    exported,
                );
            }
            UseTree::Glob(_) => self.globs.push(path),
            UseTree::Group(tree) => {
                for tree in tree.items {
                    self.import(path.clone(), tree, exported);
                }
            }
        }
    }

    fn name(&mut self, mut path: Names, name: &str, here: &str, exported: bool) {
        if name == "self" {
            let last = path.last().cloned().unwrap();
            self.names.insert(last, Name::Import(path));
            return;
        }
        path.push(name.to_owned());
        if exported {
            self.exports.insert(here.to_owned());
        } else {
            self.uses.push(path.clone());
        }
        self.names.insert(here.to_owned(), Name::Import(path));
    }

    /// Collects the paths in an item's text, those in macros' arguments included.
    fn scan(&mut self, tokens: TokenStream) {
        let mut path: Names = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Punct(mark) if mark.as_char() == ':' => colons += 1,
                TokenTree::Ident(name) => {
                    if colons != 2 {
                        self.found(std::mem::take(&mut path));
                    }
                    colons = 0;
                    path.push(name.to_string());
                }
                TokenTree::Group(group) => {
                    if colons == 2 {
                        // `use a::{b, c}` in a function's body.
                        for token in group.stream() {
                            if let TokenTree::Ident(name) = token {
                                let name = vec![name.to_string()];
                                self.found([path.clone(), name].concat());
                            }
                        }
                    }
                    self.found(std::mem::take(&mut path));
                    colons = 0;
                    self.scan(group.stream());
                }
                _ => {
                    self.found(std::mem::take(&mut path));
                    colons = 0;
                }
            }
        }
        self.found(path);
    }

    fn found(&mut self, path: Names) {
        let counts = match path.as_slice() {
            [] => false,
            [name] => self.exports.contains(name) && name.starts_with(char::is_uppercase),
            _ => true,
        };
        if counts {
            self.uses.push(path);
        }
    }
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let text = attribute.meta.to_token_stream().to_string();
        text.replace(' ', "") == "cfg(test)"
    })
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Mod(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Const(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        _ => &[],
    }
}

fn name(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}

/// The files that can be reached from a file.
fn reach<'a>(edges: &'a Edges, from: &PathBuf) -> BTreeSet<&'a PathBuf> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&PathBuf> = edges
        .get(from)
        .into_iter()
        .flat_map(BTreeMap::keys)
        .collect();
    while let Some(file) = next.pop() {
        if reached.insert(file) {
            next.extend(edges.get(file).into_iter().flat_map(BTreeMap::keys));
        }
    }
    reached
}

/// Each set of files that all use each other.
fn circles(edges: &Edges) -> BTreeSet<BTreeSet<&PathBuf>> {
    let reached: BTreeMap<&PathBuf, _> = edges
        .keys()
        .map(|file| (file, reach(edges, file)))
        .collect();
    let in_circle = |file: &&PathBuf| reached[*file].contains(*file);
    let circle = |file: &PathBuf| {
        let back = |other: &&PathBuf| {
            reached
                .get(*other)
                .is_some_and(|files| files.contains(file))
        };
        reached[file].iter().copied().filter(back).collect()
    };
    edges.keys().filter(in_circle).map(circle).collect()
}

#[test]
fn no_file_uses_one_that_uses_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut edges = Edges::new();
    for file in CRATES {
        Crate::read(&root.join(file)).edges(&mut edges);
    }
    assert!(edges.len() > 100, "only {} files use others", edges.len());
    let shown = |file: &Path| file.strip_prefix(root).unwrap().display().to_string();
    let mut text = String::new();
    for circle in circles(&edges) {
        let files: Vec<String> = circle.iter().map(|file| shown(file)).collect();
        text += &format!("\n{} files use each other:\n", files.len());
        for from in &circle {
            for (to, names) in &edges[*from] {
                if circle.contains(to) {
                    let names: Vec<&str> = names.iter().map(String::as_str).collect();
                    text += &format!("  {} -> {}: {}\n", shown(from), shown(to), names.join(", "));
                }
            }
        }
    }
    assert!(text.is_empty(), "{text}");
}
