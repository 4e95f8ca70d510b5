//! A kernel source of a few small files that builds in a second. Its image cannot run.

use std::fs;
use std::path::Path;

const MAKEFILE: &str = r#"VERSION = 6
PATCHLEVEL = 12
SUBLEVEL = 0
EXTRAVERSION = -tiny
.PHONY: allnoconfig olddefconfig vmlinux
allnoconfig:
	@sh $(CURDIR)/scripts/kc "$$KCONFIG_ALLCONFIG" > $(O)/.config
olddefconfig:
	@sh $(CURDIR)/scripts/kc $(O)/.config > $(O)/.config.next && mv $(O)/.config.next $(O)/.config
vmlinux:
	@grep '^CONFIG_TINY' $(O)/.config | sed 's/.*/const char options[] = "&";/' > $(O)/options.c
	@$(CC) -O1 -ffreestanding -fno-stack-protector -fno-pic -fno-asynchronous-unwind-tables -nostdlib -static -no-pie -Wl,--build-id=none -Wl,-e,tiny_start -o $(O)/vmlinux $(O)/options.c $(CURDIR)/kernel/start.c
	@nm $(O)/vmlinux > $(O)/System.map
	@mkdir -p $(O)/include/config && echo 6.12.0-tiny > $(O)/include/config/kernel.release
"#;

/// Grants every option; the last line about each counts.
const KC: &str = r##"awk '
/^CONFIG_[A-Za-z0-9_]+=/ { split($0, p, "="); note(p[1], p[2] == "n" ? "# " p[1] " is not set" : $0); next }
/^# CONFIG_[A-Za-z0-9_]+ is not set$/ { note($2, $0); next }
function note(name, line) { if (!(name in last)) order[++count] = name; last[name] = line }
END { for (i = 1; i <= count; i++) print last[order[i]] }' "$1"
"##;

const START: &str = r#"const char banner[] = "Linux version 6.12.0-tiny (tester@example) #1";

__asm__(".pushsection .note.Xen, \"a\", @note\n"
	".long 4, 8, 18\n"
	".asciz \"Xen\"\n"
	".quad tiny_start\n"
	".popsection\n");

/* Ends at once. */
void tiny_start(void)
{
	__asm__ volatile("ud2");
}
"#;

/// Writes the source into `folder/tiny`, and `folder/tiny.yaml`, which defines it.
pub(crate) fn write(folder: &Path) {
    let tree = folder.join("tiny");
    for (name, text) in [
        ("Makefile", MAKEFILE),
        (
            "Kconfig",
            "config TINY\n\tbool \"tiny\"\n\nconfig NUMA\n\tbool \"NUMA\"\n",
        ),
        ("scripts/kc", KC),
        ("kernel/start.c", START),
    ] {
        let path = tree.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let definition =
        "summary: builds in a second\nsource: { directory: tiny }\nset:\n  CONFIG_NUMA: y\n";
    fs::write(folder.join("tiny.yaml"), definition).unwrap();
}

/// A patch that changes a comment.
pub(crate) const COMMENT_PATCH: &str = "--- a/kernel/start.c
+++ b/kernel/start.c
@@ -6,7 +6,7 @@
 \t\".quad tiny_start\\n\"
 \t\".popsection\\n\");
 
-/* Ends at once. */
+/* Ends very soon. */
 void tiny_start(void)
 {
 \t__asm__ volatile(\"ud2\");
";
