use tokio::io::AsyncWriteExt;

use super::*;

async fn shell(script: &str) -> (Process, UnixStream) {
    let script = script.to_owned();
    Process::start(OsStr::new("bash"), |fd| {
        vec!["-c".into(), script, "bash".into(), fd.to_string()]
    })
    .await
    .unwrap()
}

#[tokio::test]
async fn the_child_inherits_the_socket() {
    let (mut process, mut socket) = shell("eval \"echo hello >&$1\"").await;
    let mut text = String::new();
    socket.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "hello\n");
    assert!(process.wait().await.unwrap().success());
}

#[tokio::test]
async fn it_leaves_no_core_file() {
    let (process, mut socket) = shell("eval \"ulimit -c >&$1\"").await;
    let mut text = String::new();
    socket.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "0\n");
    process.end().await.unwrap();
}

#[tokio::test]
async fn only_its_first_thread_has_the_priority() {
    let script = "eval \"read go <&$1\"; s() { cut -d' ' -f41 /proc/$1/stat; }; \
                  p=$(s $$); c=$(sh -c 'cut -d\" \" -f41 /proc/$$/stat'); \
                  eval \"echo $p $c >&$1\"; read -r forever";
    let (process, mut socket) = shell(script).await;
    let allowed = process.raise_priority();
    socket.write_all(b"go\n").await.unwrap();
    let mut policies = [0; 3];
    socket.read_exact(&mut policies).await.unwrap();
    let is_real_time = allowed == QemuPriority::RealTime;
    let wanted = if is_real_time { b"1 0" } else { b"0 0" };
    assert_eq!(&policies, wanted, "SCHED_FIFO is 1, SCHED_OTHER 0");
    process.end().await.unwrap();
}

#[tokio::test]
async fn it_is_killed_and_reaped_also_if_it_ignores_signals() {
    // The sleeping child holds stderr open for a while longer than we wait for it.
    let script = "trap '' TERM INT; echo talk >&2; sleep 5 & eval \"echo up >&$1\"; wait";
    let (process, mut socket) = shell(script).await;
    let pid = process.pid();
    socket.read_exact(&mut [0; 3]).await.unwrap();
    let gone = process.end().await.unwrap();
    assert_eq!(gone.how(), "signal 9");
    assert_eq!(gone.stderr, b"talk\n");
    assert!(!fs::exists(format!("/proc/{pid}")).unwrap());
}

#[tokio::test]
async fn stderr_is_bounded_and_does_not_stop_it() {
    let (mut process, _socket) = shell("head -c 1000000 /dev/zero >&2; echo end >&2; exit 7").await;
    process.wait().await.unwrap();
    let gone = process.end().await.unwrap();
    assert_eq!(gone.how(), "exit status 7");
    assert_eq!(gone.stderr.len(), 64 * 1024);
}

#[tokio::test]
async fn cpu_time_grows_and_the_oom_killer_prefers_it() {
    let (process, _socket) = shell("while :; do :; done").await;
    let pid = process.pid();
    let score = fs::read_to_string(format!("/proc/{pid}/oom_score_adj")).unwrap();
    assert_eq!(score.trim(), OOM_SCORE_ADJ);
    let mut waited = Duration::ZERO;
    while process.cpu_time().unwrap().total() < Duration::from_millis(50) {
        tokio::time::sleep(Duration::from_millis(10)).await;
        waited += Duration::from_millis(10);
        assert!(waited < Duration::from_secs(60), "no CPU time was counted");
    }
    process.end().await.unwrap();
}

#[tokio::test]
async fn what_does_not_exist_is_not_started() {
    let error = Process::start(OsStr::new("/nonexistent/qemu"), |_| vec![]);
    let error = error.await.unwrap_err();
    assert_eq!(error.to_string(), "starting /nonexistent/qemu failed");
}

#[test]
fn a_name_with_parentheses_does_not_shift_the_fields() {
    let text = "61 (a) b (c) R 1 61 61 0 -1 4194304 33 0 2 0 700 50 0 0 20 0 2 0 12 0 0";
    let time = cpu_time(text).unwrap();
    let tick = 1000 / rustix::param::clock_ticks_per_second();
    assert_eq!(time.user, Duration::from_millis(700 * tick));
    assert_eq!(time.system, Duration::from_millis(50 * tick));
    assert_eq!(cpu_time("nonsense"), None);
}
