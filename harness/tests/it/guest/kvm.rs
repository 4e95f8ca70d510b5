//! KVM on the machine that runs the tests, whatever it can do.

use numalab::environment::Environment;
use std::path::Path;

use numalab::guest::kvm::{Answer, KvmError, Probe, choose};
use numalab::guest::mode::{AcceleratorChoice, KvmCpu};

use super::tiny::{Last, kernel};
use super::*;

struct Probed {
    folder: Folder,
    qemu: Qemu,
    kernel: Utf8PathBuf,
    initrd: Utf8PathBuf,
    cache: Utf8PathBuf,
}

impl Probed {
    fn new() -> Probed {
        let folder = Folder::new();
        let image = kernel("hello\n", &lines(&idle_course()), Last::Spin);
        fs::write(folder.path().join("kernel"), image).unwrap();
        Probed {
            qemu: Qemu::find(&Environment::read()).unwrap(),
            kernel: folder.file("kernel"),
            initrd: folder.file("initrd"),
            cache: folder.file("cache"),
            folder,
        }
    }

    fn probe(&self) -> Probe<'_> {
        Probe {
            qemu: &self.qemu,
            kernel: &self.kernel,
            kernel_digest: "tiny",
            initrd: &self.initrd,
            cache: &self.cache,
        }
    }

    fn cached(&self) -> Vec<String> {
        let folder = fs::read_dir(self.folder.path().join("cache/kvm"));
        let names = folder
            .into_iter()
            .flatten()
            .map(|entry| entry.unwrap().file_name());
        names.map(|name| name.into_string().unwrap()).collect()
    }
}

#[tokio::test]
async fn the_probe_answers_on_any_machine_and_leaves_nothing_running() {
    let probed = Probed::new();
    let answer = probed.probe().ask(CancellationToken::new()).await.unwrap();
    let opens = fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/kvm")
        .is_ok();
    match &answer {
        Answer::Usable(_) => assert!(opens, "usable, and /dev/kvm does not open"),
        Answer::Unusable { reason } if !opens => {
            assert!(reason.contains("/dev/kvm"), "{reason}");
            assert!(probed.cached().is_empty(), "permissions can change");
            return;
        }
        Answer::Unusable { reason } => {
            assert!(reason.starts_with("with -cpu host"), "{reason}");
            let foreign = Path::new("/sys/module/kvm_pvm").exists();
            assert_eq!(reason.contains("kvm_pvm"), foreign, "{reason}");
        }
    }
    // Remembered, and nothing else is left behind.
    assert_eq!(probed.cached().len(), 1);
    assert_eq!(fs::read_dir(&probed.cache).unwrap().count(), 1);
    // Without its kernel it could not answer again.
    fs::remove_file(&probed.kernel).unwrap();
    let again = probed.probe().ask(CancellationToken::new()).await.unwrap();
    assert_eq!(again, answer);
}

#[tokio::test]
async fn auto_falls_back_and_a_demand_does_not() {
    let probed = Probed::new();
    let ask =
        async |choice, mode| choose(choice, mode, probed.probe(), CancellationToken::new()).await;
    let auto = ask(AcceleratorChoice::Auto, Mode::Live).await.unwrap();
    let demanded = ask(AcceleratorChoice::Kvm, Mode::Live).await;
    match (auto.platform.accelerator(), auto.fallback) {
        (Accelerator::Kvm(_), None) => {
            let demanded = demanded.unwrap();
            assert_eq!(demanded.platform, auto.platform);
        }
        (Accelerator::Tcg, Some(because)) => {
            let Err(KvmError::Demanded { reason }) = demanded else {
                panic!("{demanded:?}");
            };
            assert_eq!(reason, because);
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn exact_mode_and_a_wish_for_tcg_probe_nothing() {
    let probed = Probed::new();
    let ask =
        async |choice, mode| choose(choice, mode, probed.probe(), CancellationToken::new()).await;
    let exact = Mode::Exact { shift: 5 };
    for (choice, mode) in [
        (AcceleratorChoice::Auto, exact),
        (AcceleratorChoice::Tcg, exact),
        (AcceleratorChoice::Tcg, Mode::Live),
    ] {
        let chosen = ask(choice, mode).await.unwrap();
        assert_eq!(
            chosen.platform,
            Platform::new(mode, Accelerator::Tcg).unwrap()
        );
        assert_eq!(chosen.fallback, None);
    }
    let contradiction = ask(AcceleratorChoice::Kvm, exact).await;
    assert!(matches!(contradiction, Err(KvmError::Mode(_))));
    assert!(!probed.cache.exists());
}

#[tokio::test]
async fn a_kvm_guest_where_kvm_fails_is_ended_whatever_it_does() {
    let probed = Probed::new();
    let mut boot = probed.folder.boot();
    boot.platform = Platform::new(Mode::Live, Accelerator::Kvm(KvmCpu::Host)).unwrap();
    let ran = run(
        &probed.qemu,
        &boot,
        StageLimit::new(5, 5, 5),
        Limits::STANDARD,
    )
    .await;
    // Spins for ever where KVM works; where it does not, QEMU exits, aborts or says nothing.
    let outcome = ran.outcome();
    assert!(!outcome.is_whole(), "{}", outcome.end);
}
