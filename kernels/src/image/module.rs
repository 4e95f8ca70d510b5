//! Kernel modules as files: what they need, and which kernel they are for.
//!
//! It is read from the module itself (its section `.modinfo`), not from what `depmod`
//! writes, which packages do not have.

use std::collections::BTreeMap;

/// What a module says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Module {
    /// The modules that must be loaded before it, by name.
    pub(crate) depends: Vec<String>,
    /// The release of the kernel that it is for, as `uname -r` says it.
    pub(crate) release: String,
}

/// A module's name: as in its file's, without what comes after, and with one spelling of
/// the letters that files' names have both spellings of.
pub(crate) fn name_of_file(file: &str) -> Option<String> {
    let (stem, rest) = file.split_once(".ko")?;
    ["", ".xz", ".zst", ".gz"]
        .contains(&rest)
        .then(|| stem.replace('-', "_"))
}

/// Reads a module, uncompressed. `None` if it is none.
pub(crate) fn read(bytes: &[u8]) -> Option<Module> {
    let text = section(bytes, b".modinfo")?;
    let fields: Vec<(&str, &str)> = text
        .split(|byte| *byte == 0)
        .filter_map(|field| std::str::from_utf8(field).ok()?.split_once('='))
        .collect();
    let field = |name: &str| {
        fields
            .iter()
            .find(|(key, _)| *key == name)
            .map(|(_, value)| *value)
    };
    Some(Module {
        depends: field("depends")
            .unwrap_or_default()
            .split(',')
            .filter(|name| !name.is_empty())
            .map(|name| name.replace('-', "_"))
            .collect(),
        release: field("vermagic")?.split_whitespace().next()?.to_owned(),
    })
}

/// The order in which modules can be loaded: what one needs comes before it. Modules that
/// are not there are not in it.
pub(crate) fn order(modules: &BTreeMap<String, Module>) -> Vec<String> {
    fn visit(
        name: &str,
        modules: &BTreeMap<String, Module>,
        order: &mut Vec<String>,
        trail: &mut Vec<String>,
    ) {
        let Some(module) = modules.get(name) else {
            return;
        };
        // The kernel's build allows no circle; a file may claim one.
        if order.iter().chain(trail.iter()).any(|known| known == name) {
            return;
        }
        trail.push(name.to_owned());
        for needed in &module.depends {
            visit(needed, modules, order, trail);
        }
        trail.pop();
        order.push(name.to_owned());
    }
    let mut order = Vec::new();
    for name in modules.keys() {
        visit(name, modules, &mut order, &mut Vec::new());
    }
    order
}

/// A section of an ELF64 file of this machine's byte order.
fn section<'a>(bytes: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    if !bytes.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let table = number(bytes, 0x28, 8)?;
    let (size, count, names) = (
        number(bytes, 0x3a, 2)?,
        number(bytes, 0x3c, 2)?,
        number(bytes, 0x3e, 2)?,
    );
    let header = |index: usize| -> Option<(usize, &'a [u8])> {
        let at = table.checked_add(index.checked_mul(size)?)?;
        let (offset, length) = (
            number(bytes, at.checked_add(0x18)?, 8)?,
            number(bytes, at.checked_add(0x20)?, 8)?,
        );
        let content = bytes.get(offset..offset.checked_add(length)?)?;
        Some((number(bytes, at, 4)?, content))
    };
    let (_, texts) = header(names)?;
    (0..count).find_map(|index| {
        let (at, content) = header(index)?;
        let own = texts.get(at..)?;
        let end = own.iter().position(|byte| *byte == 0)?;
        (own.get(..end)? == name).then_some(content)
    })
}

fn number(bytes: &[u8], at: usize, size: usize) -> Option<usize> {
    let field = bytes.get(at..at.checked_add(size)?)?;
    let mut value = [0; 8];
    value.get_mut(..size)?.copy_from_slice(field);
    usize::try_from(u64::from_le_bytes(value)).ok()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An ELF file with a section `.modinfo` of these fields.
    pub(crate) fn module(fields: &[&str]) -> Vec<u8> {
        let info: Vec<u8> = fields
            .iter()
            .flat_map(|field| [field.as_bytes(), b"\0"].concat())
            .collect();
        let names = b"\0.modinfo\0.shstrtab\0";
        let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
        bytes.resize(64, 0);
        bytes[16] = 1;
        bytes[18] = 62;
        let (at, names_at) = (bytes.len(), bytes.len() + info.len());
        bytes.extend(&info);
        bytes.extend(names);
        let table = bytes.len();
        for (name, offset, length) in [(0, 0, 0), (1, at, info.len()), (10, names_at, names.len())]
        {
            let mut header = [0; 64];
            header[..4].copy_from_slice(&u32::to_le_bytes(name));
            header[0x18..0x20].copy_from_slice(&(offset as u64).to_le_bytes());
            header[0x20..0x28].copy_from_slice(&(length as u64).to_le_bytes());
            bytes.extend(header);
        }
        bytes[0x28..0x30].copy_from_slice(&(table as u64).to_le_bytes());
        bytes[0x3a..0x40].copy_from_slice(&[64, 0, 3, 0, 2, 0]);
        bytes
    }

    #[test]
    fn a_module_says_what_it_needs() {
        let bytes = module(&[
            "license=GPL",
            "depends=a-b,c",
            "vermagic=6.1.0-57-amd64 SMP mod_unload ",
        ]);
        assert_eq!(
            read(&bytes),
            Some(Module {
                depends: vec!["a_b".to_owned(), "c".to_owned()],
                release: "6.1.0-57-amd64".to_owned(),
            })
        );
        assert_eq!(read(&module(&["depends="])), None);
        assert_eq!(read(b"text"), None);
    }

    #[test]
    fn what_is_needed_comes_first_and_circles_end() {
        let module = |depends: &[&str]| Module {
            depends: depends.iter().map(|name| (*name).to_owned()).collect(),
            release: String::new(),
        };
        let modules = BTreeMap::from([
            ("a".to_owned(), module(&["c", "b"])),
            ("b".to_owned(), module(&["c", "gone"])),
            ("c".to_owned(), module(&["a"])),
        ]);
        assert_eq!(order(&modules), ["c", "b", "a"]);
    }

    #[test]
    fn names_of_files_are_names_of_modules() {
        assert_eq!(
            name_of_file("qemu_fw_cfg.ko.xz").as_deref(),
            Some("qemu_fw_cfg")
        );
        assert_eq!(name_of_file("snd-pcm.ko").as_deref(), Some("snd_pcm"));
        assert_eq!(name_of_file("x.ko.bz2"), None);
        assert_eq!(name_of_file("modules.order"), None);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_answered(at in 0..400_usize, byte in proptest::num::u8::ANY, cut in 0..400_usize) {
            let mut bytes = module(&["depends=a", "vermagic=1 "]);
            let length = bytes.len();
            bytes[at % length] = byte;
            bytes.truncate(cut);
            let _ = read(&bytes);
        }
    }
}
