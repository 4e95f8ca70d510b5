//! An empty disk image in QEMU's format qcow2, to save a guest to.
//!
//! Written here and not by `qemu-img`, which is in another package than QEMU. Images are
//! never read here.

/// Bytes of a cluster, as a power of two: QEMU's default.
const CLUSTER_BITS: u32 = 16;

/// Bytes of a cluster.
const CLUSTER: u64 = 1 << CLUSTER_BITS;

/// An image of one cluster, of which nothing is written yet. A saved guest's state lies
/// behind the disk's end, so that its size is no limit.
///
/// The form is that of `docs/interop/qcow2.rst` in QEMU's source, version 3: the header, the
/// table of reference counts, its one block, and the table of the disk's (absent) clusters,
/// each in a cluster of its own.
pub fn empty() -> Vec<u8> {
    let (header, counts, block, clusters) = (0, CLUSTER, 2 * CLUSTER, 3 * CLUSTER);
    let mut image = Image(vec![0; 4 << CLUSTER_BITS]);
    image.u32(header, 0x5146_49fb);
    image.u32(4, 3);
    image.u32(20, CLUSTER_BITS);
    image.u64(24, CLUSTER);
    // One entry of the first level.
    image.u32(36, 1);
    image.u64(40, clusters);
    image.u64(48, counts);
    image.u32(56, 1);
    // 2^4 bits a reference count; the header's length.
    image.u32(96, 4);
    image.u32(100, 104);
    image.u64(counts, block);
    for cluster in 0..4 {
        image.u16(block + 2 * cluster, 1);
    }
    image.0
}

struct Image(Vec<u8>);

impl Image {
    fn put(&mut self, at: u64, bytes: &[u8]) {
        for (place, byte) in self.0.iter_mut().skip(at as usize).zip(bytes) {
            *place = *byte;
        }
    }

    fn u16(&mut self, at: u64, value: u16) {
        self.put(at, &value.to_be_bytes());
    }

    fn u32(&mut self, at: u64, value: u32) {
        self.put(at, &value.to_be_bytes());
    }

    fn u64(&mut self, at: u64, value: u64) {
        self.put(at, &value.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_says_what_the_image_is() {
        let image = empty();
        assert_eq!(image.len() as u64, 4 * CLUSTER);
        assert_eq!(&image[..8], b"QFI\xfb\0\0\0\x03");
        assert_eq!(image[24..32], CLUSTER.to_be_bytes());
        let counts: Vec<u8> = [1_u16, 1, 1, 1, 0].map(u16::to_be_bytes).concat();
        assert_eq!(image[2 << CLUSTER_BITS..][..10], counts);
    }
}
