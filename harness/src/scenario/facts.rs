//! Facts: what a guest reports about itself before the first step
//! (`images/agent/src/topology.rs`).

/// Facts by name, where `N` and `M` stand for the number of a node, with their meaning.
pub(super) const FACTS: [(&str, &str); 7] = [
    ("nodes", "the number of nodes"),
    ("cpus", "the number of CPUs"),
    ("nodeN.cpus", "the number of CPUs of node N"),
    ("nodeN.memory-kib", "`MemTotal` of node N, in KiB"),
    ("nodeN.distance.M", "the distance from node N to node M"),
    (
        "numa_balancing",
        "`kernel.numa_balancing` before the scenario sets it; absent where the kernel lacks it",
    ),
    (
        "thp",
        "`/sys/kernel/mm/transparent_hugepage/enabled`: 0 is `never`, 1 is `madvise`, 2 is \
         `always`; absent where the kernel lacks it",
    ),
];

/// Whether there is a fact of this name.
pub(super) fn is_fact(name: &str) -> bool {
    let part = |(part, form): (&str, &str)| {
        let number = form.strip_suffix('N').or(form.strip_suffix('M'));
        let digits = number.and_then(|start| part.strip_prefix(start));
        let is_number =
            |digits: &str| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        digits.map_or(part == form, is_number)
    };
    FACTS.iter().any(|(form, _)| {
        name.split('.').count() == form.split('.').count()
            && name.split('.').zip(form.split('.')).all(part)
    })
}
