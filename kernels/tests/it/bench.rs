//! What the tests work on: a catalog with the small kernel, a cache, a listener.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use numalab_kernels::cache::{Cache, Part};
use numalab_kernels::spec::{Direction, KernelSpec, Origin, Patch};
use numalab_kernels::{
    BuildEvent, BuildOptions, Catalog, Kernel, KernelError, Progress, get_or_build,
};
use tempfile::TempDir;

/// A folder with everything, gone when the test ends.
pub(crate) struct Bench {
    pub(crate) folder: TempDir,
    pub(crate) options: BuildOptions,
}

pub(crate) const DEFINITION: &str = "\
summary: the small kernel
source:
  directory: source
set:
  CONFIG_SMALL: y
  CONFIG_NUMA: y
";

impl Bench {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let bench = Self {
            folder,
            options: BuildOptions {
                jobs: Some(2),
                build_deadline: Duration::from_secs(60),
                wait_deadline: Duration::from_secs(60),
                ..BuildOptions::default()
            },
        };
        copy_folder(&fixture(), &bench.source());
        bench.define("small", DEFINITION);
        bench
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The small kernel's source.
    pub(crate) fn source(&self) -> PathBuf {
        self.path().join("catalog/source")
    }

    pub(crate) fn catalog(&self) -> PathBuf {
        self.path().join("catalog")
    }

    pub(crate) fn define(&self, name: &str, text: &str) {
        self.write(&format!("catalog/{name}.yaml"), text);
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn cache(&self) -> Cache {
        Cache::open(self.path().join("cache")).unwrap()
    }

    pub(crate) fn wanted(&self, word: &str) -> KernelSpec {
        Catalog::load(&self.catalog())
            .unwrap()
            .resolve(word, self.path(), &self.cache())
            .unwrap()
    }

    /// The small kernel with a patch's text on it.
    pub(crate) fn patched(&self, text: &str, direction: Direction) -> KernelSpec {
        let mut wanted = self.wanted("small");
        let Origin::Recipe(recipe) = &mut wanted.origin else {
            panic!("the small kernel is built");
        };
        recipe.patches.push(Patch::new(
            "some.patch",
            text.as_bytes().to_vec(),
            direction,
        ));
        wanted
    }

    pub(crate) fn get_or_build(&self, wanted: &KernelSpec) -> Result<Kernel, KernelError> {
        self.ensure_told(wanted, &Listener::default())
    }

    pub(crate) fn ensure_told(
        &self,
        wanted: &KernelSpec,
        listener: &Listener,
    ) -> Result<Kernel, KernelError> {
        let cancel = AtomicBool::new(false);
        get_or_build(&self.cache(), wanted, &self.options, listener, &cancel)
    }

    /// Starts another process that builds `word`.
    pub(crate) fn spawn(&self, word: &str) -> Child {
        Command::new(driver())
            .arg(self.catalog())
            .arg(word)
            .arg("2")
            .env("NUMALAB_CACHE", self.path().join("cache"))
            .current_dir(self.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// The only object tree in the cache.
    pub(crate) fn objects(&self) -> PathBuf {
        let trees = folders(&self.cache().part(Part::Trees));
        let [tree] = trees.as_slice() else {
            panic!("one tree is expected: {trees:?}");
        };
        let objects: Vec<PathBuf> = folders(tree)
            .into_iter()
            .filter(|path| {
                path.file_name()
                    .unwrap()
                    .to_string_lossy()
                    .starts_with("obj-")
            })
            .collect();
        let [objects] = objects.as_slice() else {
            panic!("one object tree is expected: {objects:?}");
        };
        objects.clone()
    }

    /// The store's copy of the source.
    pub(crate) fn copy(&self) -> PathBuf {
        self.objects().parent().unwrap().join("src")
    }
}

/// Hears what a build tells.
#[derive(Default)]
pub(crate) struct Listener {
    pub(crate) lines: Mutex<Vec<String>>,
}

impl Listener {
    pub(crate) fn text(&self) -> String {
        self.lines.lock().unwrap().join("\n")
    }
}

impl Progress for Listener {
    fn event(&self, event: BuildEvent<'_>) {
        let line = match event {
            BuildEvent::BuildStage { stage, detail } => format!("{stage} {detail}"),
            BuildEvent::Count { stage, done, total } => format!("{stage} {done} of {total:?}"),
            BuildEvent::Line(line) => format!("| {line}"),
            BuildEvent::Note(text) => format!("note: {text}"),
            BuildEvent::Warning(text) => format!("warning: {text}"),
        };
        self.lines.lock().unwrap().push(line);
    }

    fn wants_lines(&self) -> bool {
        true
    }
}

/// The objects that a build compiled, by its log.
pub(crate) fn compiled(kernel: &Kernel) -> Vec<String> {
    let log = fs::read_to_string(kernel.image.with_file_name("build.log")).unwrap();
    let mut names: Vec<String> = log
        .lines()
        .filter_map(|line| line.strip_prefix("  CC      "))
        .map(str::to_owned)
        .collect();
    names.sort();
    names
}

/// A diff of one line of a file of the small kernel, in git's form.
pub(crate) fn diff(file: &str, removed: &str, added: &str) -> String {
    let text = fs::read_to_string(fixture().join(file)).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let at = lines.iter().position(|line| *line == removed).unwrap();
    let (before, after) = (lines[at - 1], lines[at + 1]);
    format!(
        "diff --git a/{file} b/{file}\n--- a/{file}\n+++ b/{file}\n\
         @@ -{at},3 +{at},3 @@\n {before}\n-{removed}\n+{added}\n {after}\n"
    )
}

/// A patch that changes what the small kernel computes.
pub(crate) fn change() -> String {
    diff("second.c", "\treturn value + 1;", "\treturn value + 2;")
}

pub(crate) fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/kernel")
}

pub(crate) fn driver() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let driver = own
        .ancestors()
        .nth(2)
        .unwrap()
        .join("examples/get_or_build");
    assert!(
        driver.is_file(),
        "{} is not there: `cargo build --examples` makes it, and so does a test run of the \
         whole package",
        driver.display()
    );
    driver
}

pub(crate) fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for item in fs::read_dir(from).unwrap() {
        let item = item.unwrap();
        let target = to.join(item.file_name());
        if item.file_type().unwrap().is_dir() {
            copy_folder(&item.path(), &target);
        } else {
            fs::copy(item.path(), target).unwrap();
        }
    }
}

pub(crate) fn folders(path: &Path) -> Vec<PathBuf> {
    fs::read_dir(path)
        .unwrap()
        .map(|item| item.unwrap().path())
        .filter(|path| path.is_dir())
        .collect()
}

/// Waits for something that must come soon.
#[track_caller]
pub(crate) fn wait_for(what: &str, mut there: impl FnMut() -> bool) {
    let start = Instant::now();
    while !there() {
        assert!(
            start.elapsed() < Duration::from_secs(30),
            "{what} did not come"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether any process has its working folder or an argument in `path`.
pub(crate) fn processes_in(path: &Path) -> Vec<String> {
    let needle = path.to_string_lossy().into_owned();
    let mut found = Vec::new();
    for item in fs::read_dir("/proc").unwrap().flatten() {
        let line = fs::read(item.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        let own = item.file_name().to_string_lossy() == std::process::id().to_string();
        if !own && line.contains(&needle) {
            found.push(line);
        }
    }
    found
}
