//! A cpuset is read back when it is written, also in the groups below it.

use super::*;

fn cgroup(path: &str, mems: Option<&str>, cpus: Option<&str>) -> Cgroup {
    Cgroup {
        path: path.into(),
        mems: mems.map(Into::into),
        cpus: cpus.map(Into::into),
    }
}

/// A folder that looks like a hierarchy; what is in effect in it is the test's to say.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new(groups: &[&str]) -> Self {
        let folder = Folder(tempfile::tempdir().unwrap());
        for group in groups {
            fs::create_dir_all(folder.0.path().join(group)).unwrap();
            for name in ["mems", "cpus", "mems.effective", "cpus.effective"] {
                folder.write(&format!("{group}/cpuset.{name}"), "0");
            }
        }
        folder
    }

    fn write(&self, path: &str, text: &str) {
        fs::write(self.0.path().join(path), format!("{text}\n")).unwrap();
    }

    fn hierarchy(&self) -> Hierarchy {
        Hierarchy {
            version: CgroupVersion::V2,
            root: self.0.path().to_str().unwrap().into(),
            memory: false,
            cpus: 1,
            asked: BTreeMap::new(),
        }
    }
}

#[test]
fn a_written_cpuset_that_is_not_in_effect_is_an_error() {
    let folder = Folder::new(&["a", "a/b"]);
    let mut hierarchy = folder.hierarchy();
    hierarchy.set(&cgroup("a", Some("0"), Some("0"))).unwrap();
    for (wrong, file) in [
        (
            cgroup("a/b", Some("1"), None),
            "a/b/cpuset.mems.effective is \"0\"",
        ),
        (
            cgroup("a", None, Some("0-1")),
            "a/cpuset.cpus.effective is \"0\"",
        ),
    ] {
        let error = hierarchy.set(&wrong).unwrap_err().to_string();
        assert!(error.contains(file), "{error}");
    }
}

#[test]
fn a_change_that_takes_a_group_below_its_nodes_is_an_error() {
    let folder = Folder::new(&["a", "a/b", "ab"]);
    let mut hierarchy = folder.hierarchy();
    for path in ["a", "a/b", "ab"] {
        hierarchy.set(&cgroup(path, Some("0"), None)).unwrap();
    }
    // As the kernel would do it; that the neighbour has changed is not for this write to say.
    for path in ["a", "a/b", "ab"] {
        folder.write(&format!("{path}/cpuset.mems.effective"), "1");
    }
    let error = hierarchy.set(&cgroup("a", Some("1"), None)).unwrap_err();
    let error = error.to_string();
    assert!(
        error.contains("a/b/cpuset.mems.effective is \"1\", but the plan asks for \"0\""),
        "{error}"
    );
}

#[test]
fn what_is_not_asked_anew_is_still_asked() {
    let folder = Folder::new(&["a"]);
    let mut hierarchy = folder.hierarchy();
    hierarchy.set(&cgroup("a", Some("0"), None)).unwrap();
    folder.write("a/cpuset.mems.effective", "0-1");
    hierarchy
        .set(&cgroup("a", None, Some("0")))
        .expect_err("the nodes have changed");
}

#[test]
fn names_that_begin_alike_are_not_within_each_other() {
    assert!(is_within("a", "a") && is_within("a/b/c", "a"));
    assert!(!is_within("ab", "a") && !is_within("a", "a/b"));
}
