//! Where a region's pages are in a guest in which nothing happens: no scan moves a page, and
//! no memory policy and no cpuset takes effect.

use std::collections::{BTreeMap, BTreeSet};

use numalab_protocol::plan::{Cgroup, Command, Populate, Region, Step, Task};

use super::assertion::{Observable, Unit};
use crate::guest::topology::Machine;

/// The homes of all regions, by task and region.
#[derive(Debug, Default)]
pub(super) struct Homes(BTreeMap<(String, String), Home>);

#[derive(Debug)]
struct Home {
    /// The nodes on which the pages may be.
    nodes: BTreeSet<u32>,
    /// How many there are; `None` if not all are populated at first.
    pages: Option<u64>,
}

impl Homes {
    pub(super) fn new(
        machine: &Machine,
        tasks: &BTreeMap<String, Task>,
        cgroups: &BTreeMap<String, Cgroup>,
        steps: &[Step],
    ) -> Homes {
        let lanes = || {
            steps
                .iter()
                .flat_map(|step| step.prepare.iter().chain(&step.actors))
        };
        let commands = |of: &str| {
            let own = lanes().filter(move |lane| lane.task.as_deref() == Some(of));
            own.flat_map(|lane| &lane.commands).collect::<Vec<_>>()
        };
        let regions = |of: &str| {
            let regions = commands(of)
                .into_iter()
                .filter_map(|command| match command {
                    Command::Map(region) => Some(region),
                    _ => None,
                });
            regions.collect::<Vec<&Region>>()
        };
        let bytes = |region: &Region| region.size.saturating_mul(u64::from(region.count));
        let all = tasks.keys().flat_map(|task| regions(task)).map(bytes);
        let all = all.fold(0, u64::saturating_add);
        // The kernel moves a task whose CPUs a cpuset takes away.
        let cpus_may_change = cgroups.values().any(|group| group.cpus.is_some())
            || lanes()
                .flat_map(|lane| &lane.commands)
                .any(|command| matches!(command, Command::Cpuset(group) if group.cpus.is_some()));
        let mut homes = BTreeMap::new();
        for (name, task) in tasks {
            let moves = commands(name)
                .into_iter()
                .filter_map(|command| match command {
                    Command::Affinity { cpus } => Some(cpus),
                    _ => None,
                });
            let cpus: BTreeSet<u32> = moves.chain([&task.cpus]).flatten().copied().collect();
            let anywhere = cpus_may_change || task.cpus.is_empty();
            let ranges = machine.cpus_of_nodes();
            let local = (0..).zip(&ranges).filter(|(_, range)| {
                !range.is_empty() && (anywhere || cpus.iter().any(|cpu| range.contains(cpu)))
            });
            let local: BTreeSet<u32> = local.map(|(node, _)| node).collect();
            for region in regions(name) {
                let nodes = match region.populate {
                    Populate::Node(node) => [node].into(),
                    Populate::Yes | Populate::No => local.clone(),
                };
                // Where memory is short, pages are put elsewhere.
                let has_room = nodes.iter().all(|node| {
                    let node = machine.nodes().get(*node as usize);
                    node.is_some_and(|node| all <= (node.memory_mib << 20) / 2)
                });
                if has_room {
                    let populated = region.populate != Populate::No;
                    let pages = populated.then_some(bytes(region) / 4096);
                    let key = (name.clone(), region.name.clone());
                    homes.insert(key, Home { nodes, pages });
                }
            }
        }
        Homes(homes)
    }

    /// The value of a placement in such a guest, if it can be known.
    pub(super) fn idle(&self, observable: &Observable) -> Option<i64> {
        let Observable::Placement {
            task,
            region,
            node,
            unit,
        } = observable
        else {
            return None;
        };
        let home = self.0.get(&(task.clone(), region.clone()))?;
        if !home.nodes.contains(node) {
            return Some(0);
        }
        if home.nodes.len() > 1 {
            return None;
        }
        let pages = i64::try_from(home.pages?).ok()?;
        Some(match unit {
            Unit::PercentOfPages | Unit::PercentOfVmas => 100,
            Unit::Pages | Unit::Vmas => pages,
        })
    }
}
