//! Guest images as files.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};

use crate::archive::Module;

/// An image on disk. While it or a clone of it lives, its file has a shared lock, by which
/// those who remove unused images see that it is in use.
#[derive(Debug, Clone)]
pub struct Image {
    /// The file.
    pub path: Utf8PathBuf,
    /// The SHA-256 of its bytes, in hexadecimal digits.
    pub digest: String,
    _lock: Arc<File>,
}

/// Why there is no image on disk.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The folder cannot be created.
    #[error("cannot create the folder {path} for guest images")]
    Folder {
        /// The folder.
        path: Utf8PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The image cannot be written; the disk may be full, or the folder not writable.
    #[error("cannot write the guest image {path}")]
    Write {
        /// The file.
        path: Utf8PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// Digits of the digest in a file name.
const NAMED: usize = 16;

/// Makes sure that a folder, which is created if necessary, has the image with these modules.
///
/// The file is named after its digest, and written atomically, also by concurrent processes.
/// A damaged file is replaced.
pub fn get_or_build(dir: &Utf8Path, modules: &[Module]) -> Result<Image, ImageError> {
    let bytes = crate::archive::pack(crate::AGENT, modules);
    let digest = crate::hex(&bytes);
    let path = dir.join(format!("initramfs-{}.cpio", &digest[..NAMED]));
    fs::create_dir_all(dir).map_err(|source| ImageError::Folder {
        path: dir.to_owned(),
        source,
    })?;
    let lock = loop {
        match lock(&path, &bytes) {
            Ok(Some(lock)) => break Arc::new(lock),
            Ok(None) => publish(dir, &path, &bytes),
            Err(source) => Err(source),
        }
        .map_err(|source| ImageError::Write {
            path: path.clone(),
            source,
        })?;
    };
    Ok(Image {
        path,
        digest,
        _lock: lock,
    })
}

/// Locks a file with these bytes; `None` if there is none, or it was removed or replaced
/// before it was locked.
fn lock(path: &Utf8Path, bytes: &[u8]) -> io::Result<Option<File>> {
    let Ok(mut file) = File::open(path) else {
        return Ok(None);
    };
    file.lock_shared()?;
    let (locked, mut found) = (file.metadata()?, Vec::new());
    file.read_to_end(&mut found)?;
    let current =
        fs::metadata(path).is_ok_and(|now| (now.dev(), now.ino()) == (locked.dev(), locked.ino()));
    Ok((current && found == bytes).then_some(file))
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
        assert_eq!(get_or_build(&dir, &[]).unwrap().path, image.path);
        let kept = fs::metadata(&image.path).unwrap().modified().unwrap();
        assert_eq!(written, kept);
        assert_eq!(names(&dir).len(), 1, "{:?}", names(&dir));
    }

    #[test]
    fn an_image_in_use_is_locked() {
        let (_folder, dir) = folder();
        let image = get_or_build(&dir, &[]).unwrap();
        let file = File::open(&image.path).unwrap();
        assert!(file.try_lock().is_err());
        drop(image);
        file.try_lock().unwrap();
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
    fn the_error_of_a_folder_has_its_path() {
        let (folder, dir) = folder();
        fs::write(&dir, "a file").unwrap();
        let error = get_or_build(&dir, &[]).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("cannot create the folder {dir} for guest images")
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
