//! What reports of runs and of comparisons share.

use comfy_table::{CellAlignment, Table, presets};

use crate::kernel_id::short;

/// Printed wherever results of exact mode are shown.
pub(super) const LIMITS: &str = "Exact mode runs one interleaving for each seed: it shows what the code decides, \
not races, cache effects, latency or throughput.";

/// A table whose two columns in the middle are aligned to the right.
pub(super) fn table(header: [&str; 4]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(header);
    for index in 1..3 {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

pub(super) fn lines(table: &Table) -> String {
    let lines = table.lines();
    lines.map(|line| format!("{}\n", line.trim_end())).collect()
}

pub(super) fn platform(mode: &str, accelerator: &str, qemu: &str, image: &str) -> String {
    format!(
        "{mode} mode, {accelerator}, QEMU {qemu}, guest image {}",
        short(image)
    )
}
