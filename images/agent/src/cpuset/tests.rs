//! A cpuset that is not in effect is told, with its file.

use std::fs;

use super::*;

/// A folder that looks like a hierarchy.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Folder(folder)
    }

    fn check(&self, version: CgroupVersion, path: &str, mems: Option<&str>) -> Result<(), String> {
        let asked = Cgroup {
            path: path.into(),
            mems: mems.map(Into::into),
            cpus: None,
        };
        let root = self.0.path().to_str().unwrap();
        check(version, &format!("{root}/{path}"), &asked)
            .map_err(|error| error.to_string().replace(root, ""))
    }
}

#[test]
fn a_child_that_silently_runs_with_its_parent_s_nodes_is_an_error() {
    let folder = Folder::new(&[
        ("a/cpuset.mems.effective", "0\n"),
        ("a/b/cpuset.mems", "1\n"),
        ("a/b/cpuset.mems.effective", "0\n"),
    ]);
    let v2 = CgroupVersion::V2;
    assert_eq!(folder.check(v2, "a", Some("0")), Ok(()));
    assert_eq!(folder.check(v2, "a/b", None), Ok(()));
    assert_eq!(
        folder.check(v2, "a/b", Some("1")).unwrap_err(),
        "/a/b/cpuset.mems.effective is \"0\", but the plan asks for \"1\": a control group can \
         use only what its parent has, nodes with memory, and CPUs that are online"
    );
}

#[test]
fn a_list_that_is_in_effect_only_in_part_is_an_error() {
    let folder = Folder::new(&[("a/cpuset.mems.effective", "0-1\n")]);
    let v2 = CgroupVersion::V2;
    assert_eq!(folder.check(v2, "a", Some("1,0")), Ok(()));
    let error = folder.check(v2, "a", Some("0-2")).unwrap_err();
    assert!(
        error.contains("is \"0-1\", but the plan asks for \"0-2\""),
        "{error}"
    );
}

#[test]
fn an_empty_list_of_the_unified_hierarchy_is_the_parent_s() {
    let folder = Folder::new(&[
        ("cpuset.mems.effective", "0-1\n"),
        ("a/cpuset.mems.effective", "0-1\n"),
        ("b/cpuset.mems.effective", "0\n"),
    ]);
    let v2 = CgroupVersion::V2;
    assert_eq!(folder.check(v2, "a", Some("")), Ok(()));
    assert!(folder.check(v2, "b", Some("")).is_err());
}

#[test]
fn version_1_shows_what_is_in_effect_in_another_file() {
    let folder = Folder::new(&[
        ("new/cpuset.mems", "1\n"),
        ("new/cpuset.effective_mems", "0\n"),
        ("old/cpuset.mems", "1\n"),
        ("empty/cpuset.effective_mems", "\n"),
    ]);
    let v1 = CgroupVersion::V1;
    assert_eq!(folder.check(v1, "old", Some("1")), Ok(()));
    assert_eq!(folder.check(v1, "empty", Some("")), Ok(()));
    for path in ["old", "new"] {
        let error = folder.check(v1, path, Some("0-1")).unwrap_err();
        assert!(error.contains("the plan asks for \"0-1\""), "{error}");
    }
    let error = folder.check(v1, "new", Some("1")).unwrap_err();
    assert!(
        error.starts_with("/new/cpuset.effective_mems is \"0\""),
        "{error}"
    );
}

#[test]
fn a_kernel_that_shows_nothing_is_not_believed() {
    let folder = Folder::new(&[("a/cpuset.mems", "1\n")]);
    let error = folder.check(CgroupVersion::V2, "a", Some("1")).unwrap_err();
    assert!(
        error.contains("/a/cpuset.mems.effective cannot be read"),
        "{error}"
    );
}
