//! What is inside of an image: its configuration, where it carries one, and whether it can
//! read fw_cfg.
//!
//! A bzImage's kernel is compressed; how is told by its first bytes. Nothing here is needed
//! to boot it: what cannot be read is not known.

use super::{find, u16_at, u32_at};

/// The kernel in a bzImage, compressed: `payload_offset` and `payload_length` of
/// `Documentation/arch/x86/boot.rst`, and the tool that decompresses it.
pub(crate) fn compressed(image: &[u8]) -> Option<(&[u8], &'static str)> {
    if image.get(0x202..0x206) != Some(b"HdrS") {
        return None;
    }
    // 0 stands for 4 (the field `setup_sects`).
    let sectors = match *image.get(0x1f1)? {
        0 => 4,
        sectors => usize::from(sectors),
    };
    // Since version 2.08 of the protocol.
    if u16_at(image, 0x206)? < 0x208 {
        return None;
    }
    let offset = usize::try_from(u32_at(image, 0x248)?).ok()?;
    let length = usize::try_from(u32_at(image, 0x24c)?).ok()?;
    let start = (sectors + 1).checked_mul(512)?.checked_add(offset)?;
    let payload = image.get(start..start.checked_add(length)?)?;
    let known = [
        (&b"\x1f\x8b"[..], "gzip"),
        (b"\xfd7zXZ\0", "xz"),
        (b"\x28\xb5\x2f\xfd", "zstd"),
    ];
    let (_, tool) = known.iter().find(|(magic, _)| payload.starts_with(magic))?;
    Some((payload, tool))
}

/// The compressed configuration that a kernel carries (`CONFIG_IKCONFIG`, between the marks
/// of `kernel/configs.c`): by gzip.
pub(crate) fn configuration(kernel: &[u8]) -> Option<&[u8]> {
    const MARK: &[u8] = b"IKCFG_ST\x1f\x8b";
    let start = find(kernel, MARK)? + MARK.len() - 2;
    let rest = &kernel[start..];
    rest.get(..find(rest, b"IKCFG_ED")?)
}

/// Whether a kernel has the driver by which the plan is read (`drivers/firmware/qemu_fw_cfg.c`).
pub(crate) fn has_fw_cfg(kernel: &[u8]) -> bool {
    find(kernel, b"qemu_fw_cfg\0").is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_inside_is_found() {
        let mut image = vec![0; 0x1000];
        image[0x1f1] = 1;
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x206..0x208].copy_from_slice(&0x20f_u16.to_le_bytes());
        image[0x248..0x24c].copy_from_slice(&8_u32.to_le_bytes());
        image[0x24c..0x250].copy_from_slice(&16_u32.to_le_bytes());
        image[0x408..0x40a].copy_from_slice(b"\x1f\x8b");
        let (payload, tool) = compressed(&image).unwrap();
        assert_eq!((payload.len(), tool), (16, "gzip"));
        image[0x24c..0x250].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(compressed(&image), None);
        assert_eq!(
            configuration(b"x IKCFG_ST\x1f\x8bzip IKCFG_ED y"),
            Some(&b"\x1f\x8bzip "[..])
        );
        assert_eq!(configuration(b"IKCFG_ST\x1f\x8b and no end"), None);
        assert!(has_fw_cfg(b"a\0qemu_fw_cfg\0b"));
        assert!(!has_fw_cfg(b"qemu_fw_cfg is spoken of"));
    }
}
