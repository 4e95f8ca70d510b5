//! Memory policies of the calling thread.

use std::io;

use numalab_protocol::list;
use numalab_protocol::plan::{MPOL_F_NUMA_BALANCING, Policy, PolicyMode};

use super::{TaskError, refused};

/// Words of a node mask of 1024 nodes, the most that Linux supports (`NODES_SHIFT` is at most
/// 10).
const WORDS: usize = 16;

fn mask(nodes: &[u32]) -> Result<[u64; WORDS], TaskError> {
    let mut mask = [0; WORDS];
    for &node in nodes {
        let word = mask
            .get_mut(node as usize / 64)
            .ok_or(TaskError::Number(node))?;
        *word |= 1 << (node % 64);
    }
    Ok(mask)
}

/// Sets the policy of the calling thread.
pub(crate) fn set(policy: &Policy) -> Result<(), TaskError> {
    call(policy.mode, policy.numa_balancing, &policy.nodes)
}

/// Sets `MPOL_BIND` to one node.
pub(crate) fn bind(node: u32) -> Result<(), TaskError> {
    call(PolicyMode::Bind, false, &[node])
}

/// Restores the memory policy of a task.
pub(crate) fn restore(policy: Option<&Policy>) -> Result<(), TaskError> {
    match policy {
        Some(policy) => set(policy),
        None => call(PolicyMode::Default, false, &[]),
    }
}

fn call(mode: PolicyMode, numa_balancing: bool, nodes: &[u32]) -> Result<(), TaskError> {
    let (flags, shown) = match numa_balancing {
        true => (MPOL_F_NUMA_BALANCING, " and MPOL_F_NUMA_BALANCING"),
        false => (0, ""),
    };
    let mask = mask(nodes)?;
    // The kernel subtracts one from the number of bits (`get_nodes` of mm/mempolicy.c). Modes
    // without nodes get no mask: `MPOL_PREFERRED` with an empty one is another policy.
    let (pointer, bits) = if nodes.is_empty() {
        (std::ptr::null(), 0)
    } else {
        (mask.as_ptr(), 64 * WORDS + 1)
    };
    #[expect(unsafe_code, reason = "set_mempolicy(2) has no safe wrapper")]
    // SAFETY: the pointer is null with 0 bits, or to a mask of 1024 bits that lives across
    // the call, of which the kernel reads at most `bits - 1`.
    let result = unsafe {
        libc::syscall(
            libc::SYS_set_mempolicy,
            mode.number() | flags,
            pointer,
            bits,
        )
    };
    if result < 0 {
        let nodes = list::format(nodes);
        let call = format!("set_mempolicy({mode:?}) with nodes \"{nodes}\"{shown}");
        return Err(refused(call, io::Error::last_os_error()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_become_bits() {
        let mask = mask(&[0, 1, 64, 1023]).unwrap();
        assert_eq!((mask[0], mask[1], mask[15]), (3, 1, 1 << 63));
        assert!(matches!(super::mask(&[1024]), Err(TaskError::Number(1024))));
    }
}
