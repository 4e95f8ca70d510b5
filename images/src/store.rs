//! The image as a file, for QEMU to read.

use std::fs;
use std::io::{self, Write};

use camino::{Utf8Path, Utf8PathBuf};

use crate::Module;

/// An image on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// The file.
    pub path: Utf8PathBuf,
    /// The SHA-256 of its bytes, in hexadecimal digits.
    pub digest: String,
}

/// Why there is no image on disk.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The folder cannot be made.
    #[error("the folder {path} for guest images cannot be made")]
    Folder {
        /// The folder.
        path: Utf8PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The image cannot be written; the disk may be full, or the folder not writable.
    #[error("the guest image {path} cannot be written")]
    Write {
        /// The file.
        path: Utf8PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// Digits of the digest in a file's name: enough to keep images apart, few enough to read.
const NAMED: usize = 16;

/// Makes sure that the image with these modules is in a folder, which is made if it does not
/// exist.
///
/// The file is named after its digest and appears whole or not at all, also when two
/// processes write it at once. One with other bytes, whatever has happened to it, is
/// replaced.
pub fn get_or_build(dir: &Utf8Path, modules: &[Module]) -> Result<Image, ImageError> {
    let bytes = crate::archive::pack(crate::AGENT, modules);
    let digest = crate::hex(&bytes);
    let path = dir.join(format!("initramfs-{}.cpio", &digest[..NAMED]));
    fs::create_dir_all(dir).map_err(|source| ImageError::Folder {
        path: dir.to_owned(),
        source,
    })?;
    if fs::read(&path).is_ok_and(|found| found == bytes) {
        return Ok(Image { path, digest });
    }
    match publish(dir, &path, &bytes) {
        Ok(()) => Ok(Image { path, digest }),
        Err(source) => Err(ImageError::Write { path, source }),
    }
}

fn publish(dir: &Utf8Path, path: &Utf8Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = tempfile::Builder::new()
        .prefix(".initramfs-")
        .tempfile_in(dir)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> (tempfile::TempDir, Utf8PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = Utf8PathBuf::from_path_buf(folder.path().join("images")).unwrap();
        (folder, path)
    }

    fn names(dir: &Utf8Path) -> Vec<String> {
        let entries = dir.read_dir_utf8().unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().to_owned())
            .collect()
    }

    #[test]
    fn the_image_is_written_once_under_its_digest() {
        let (_folder, dir) = folder();
        let image = get_or_build(&dir, &[]).unwrap();
        assert_eq!(fs::read(&image.path).unwrap(), crate::initramfs());
        assert_eq!(image.digest, crate::digest());
        let written = fs::metadata(&image.path).unwrap().modified().unwrap();
        assert_eq!(get_or_build(&dir, &[]).unwrap(), image);
        let kept = fs::metadata(&image.path).unwrap().modified().unwrap();
        assert_eq!(written, kept);
        assert_eq!(names(&dir).len(), 1, "{:?}", names(&dir));
    }

    #[test]
    fn an_image_with_other_bytes_is_replaced() {
        let (_folder, dir) = folder();
        let image = get_or_build(&dir, &[]).unwrap();
        for wrong in [&b""[..], b"cut short"] {
            fs::write(&image.path, wrong).unwrap();
            get_or_build(&dir, &[]).unwrap();
            assert_eq!(fs::read(&image.path).unwrap(), crate::initramfs());
        }
    }

    #[test]
    fn a_folder_that_cannot_be_is_named() {
        let (folder, dir) = folder();
        fs::write(&dir, "a file").unwrap();
        let error = get_or_build(&dir, &[]).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("the folder {dir} for guest images cannot be made")
        );
        drop(folder);
    }

    #[test]
    fn many_at_once_leave_one_whole_image() {
        let (_folder, dir) = folder();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| get_or_build(&dir, &[]).unwrap());
            }
        });
        assert_eq!(names(&dir).len(), 1);
        assert_eq!(
            fs::read(get_or_build(&dir, &[]).unwrap().path).unwrap(),
            crate::initramfs()
        );
    }
}
