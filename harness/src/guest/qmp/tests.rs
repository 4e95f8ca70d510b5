//! The monitor against a server that plays QEMU.

use qapi::qmp;
use tokio::net::{UnixListener, UnixStream};

use super::*;

const GREETING: &str = r#"{"QMP":{"version":{"qemu":{"micro":2,"minor":0,"major":10},"package":""},"capabilities":["oob"]}}"#;
const PATIENCE: Duration = Duration::from_secs(20);

/// One end of a socket, playing QEMU.
struct Fake {
    reader: tokio::io::Lines<BufReader<tokio::net::unix::OwnedReadHalf>>,
    writer: tokio::net::unix::OwnedWriteHalf,
}

impl Fake {
    async fn send(&mut self, line: &str) {
        let line = format!("{line}\r\n");
        self.writer.write_all(line.as_bytes()).await.unwrap();
    }

    async fn asked(&mut self, command: &str) {
        let line = self.reader.next_line().await.unwrap().unwrap();
        let value: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["execute"], command);
    }
}

/// A fake that has greeted, and our side of it.
async fn greeted() -> (Fake, Qmp, mpsc::Receiver<Message>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("qmp");
    let listener = UnixListener::bind(&path).unwrap();
    let ours = UnixStream::connect(&path).await.unwrap();
    let (theirs, _) = listener.accept().await.unwrap();
    let (reader, writer) = theirs.into_split();
    let reader = BufReader::new(reader).lines();
    let mut fake = Fake { reader, writer };
    let (qmp, mut messages) = connect(ours);
    fake.send(GREETING).await;
    fake.asked("qmp_capabilities").await;
    fake.send(r#"{"return":{}}"#).await;
    assert!(matches!(next(&mut messages).await, Message::Ready));
    (fake, qmp, messages)
}

async fn next(messages: &mut mpsc::Receiver<Message>) -> Message {
    timeout(PATIENCE, messages.recv()).await.unwrap().unwrap()
}

async fn event(messages: &mut mpsc::Receiver<Message>) -> QmpEvent {
    match next(messages).await {
        Message::Event(event) => event,
        other => panic!("{other:?} instead of an event"),
    }
}

async fn closed(messages: &mut mpsc::Receiver<Message>) -> Closed {
    match next(messages).await {
        Message::Closed(closed) => closed,
        other => panic!("{other:?} instead of the end"),
    }
}

const RUNNING: &str = r#"{"return":{"running":true,"singlestep":false,"status":"running"}}"#;

#[tokio::test]
async fn an_unknown_event_arrives_raw_and_ends_nothing() {
    let (mut fake, qmp, mut messages) = greeted().await;
    fake.send(
        r#"{"event":"WOKE_UP_LATE","data":{"by":7},"timestamp":{"seconds":1,"microseconds":2}}"#,
    )
    .await;
    let seen = event(&mut messages).await;
    assert_eq!(seen.name, "WOKE_UP_LATE");
    assert_eq!(seen.data["by"], 7);
    let (status, ()) = tokio::join!(qmp.execute(qmp::query_status {}, PATIENCE), async {
        fake.asked("query-status").await;
        fake.send(r#"{"event":"SHUTDOWN","data":{"guest":true,"reason":"from-the-future"}}"#)
            .await;
        fake.send(RUNNING).await;
    });
    assert!(status.unwrap().running);
    assert_eq!(event(&mut messages).await.data["reason"], "from-the-future");
}

#[tokio::test]
async fn a_timeout_does_not_poison_the_connection() {
    let (mut fake, qmp, mut messages) = greeted().await;
    let patience = Duration::from_millis(30);
    let error = qmp
        .execute(qmp::query_status {}, patience)
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "QEMU did not answer query-status within 30 ms"
    );
    // The next is not even given: QEMU counts as stuck.
    let error = qmp.execute(qmp::query_kvm {}, PATIENCE).await.unwrap_err();
    assert!(matches!(error, QmpError::Stuck { .. }), "{error}");
    // The late answer finds its command, and events still come.
    fake.asked("query-status").await;
    fake.send(RUNNING).await;
    fake.send(r#"{"event":"STOP"}"#).await;
    let seen = event(&mut messages).await;
    assert_eq!((seen.name.as_str(), seen.data), ("STOP", Value::Null));
}

#[tokio::test]
async fn an_end_in_mid_command_is_told_to_both_sides() {
    let (mut fake, qmp, mut messages) = greeted().await;
    let (status, ()) = tokio::join!(qmp.execute(qmp::query_status {}, PATIENCE), async move {
        fake.asked("query-status").await;
        fake.writer.write_all(br#"{"return":{"run"#).await.unwrap();
        drop(fake);
    });
    assert!(matches!(status.unwrap_err(), QmpError::Closed { .. }));
    assert!(matches!(closed(&mut messages).await, Closed::End));
    let later = qmp.execute(qmp::query_status {}, PATIENCE).await;
    assert!(matches!(later.unwrap_err(), QmpError::Closed { .. }));
}

#[tokio::test]
async fn garbage_ends_the_connection_with_its_text() {
    let (mut fake, _qmp, mut messages) = greeted().await;
    fake.send("qemu: assertion failed").await;
    let closed = closed(&mut messages).await;
    assert_eq!(
        closed.to_string(),
        "QEMU's monitor said \"qemu: assertion failed\", which is not JSON"
    );
}

#[tokio::test]
async fn an_oversized_line_ends_the_connection() {
    let (mut fake, _qmp, mut messages) = greeted().await;
    let long = "x".repeat(2 * 1024 * 1024);
    // Fails when our side closes in the middle.
    let (_, closed) = tokio::join!(
        fake.writer.write_all(long.as_bytes()),
        closed(&mut messages)
    );
    assert!(matches!(closed, Closed::Oversized), "{closed}");
}

#[tokio::test]
async fn a_refusal_names_the_command_and_ends_nothing() {
    let (mut fake, qmp, _messages) = greeted().await;
    let (refused, ()) = tokio::join!(qmp.execute(qmp::query_kvm {}, PATIENCE), async {
        fake.asked("query-kvm").await;
        fake.send(r#"{"error":{"class":"GenericError","desc":"not today"}}"#)
            .await;
    });
    let error = refused.unwrap_err();
    assert_eq!(error.to_string(), "QEMU refused query-kvm");
    let (kvm, ()) = tokio::join!(qmp.execute(qmp::query_kvm {}, PATIENCE), async {
        fake.asked("query-kvm").await;
        fake.send(r#"{"return":{"enabled":false,"present":true}}"#)
            .await;
    });
    assert!(kvm.unwrap().present);
}

#[tokio::test]
async fn commands_given_at_once_are_answered_in_order() {
    let (mut fake, qmp, _messages) = greeted().await;
    let (one, two, ()) = tokio::join!(
        qmp.execute(qmp::query_status {}, PATIENCE),
        qmp.execute(qmp::query_kvm {}, PATIENCE),
        async {
            fake.asked("query-status").await;
            fake.send(RUNNING).await;
            fake.asked("query-kvm").await;
            fake.send(r#"{"return":{"enabled":true,"present":true}}"#)
                .await;
        }
    );
    assert!(one.unwrap().running && two.unwrap().enabled);
}

#[tokio::test]
async fn a_server_that_never_greets_gives_no_message() {
    let (ours, _theirs) = UnixStream::pair().unwrap();
    let (qmp, mut messages) = connect(ours);
    let patience = Duration::from_millis(30);
    assert!(timeout(patience, messages.recv()).await.is_err());
    let error = qmp
        .execute(qmp::query_status {}, patience)
        .await
        .unwrap_err();
    assert!(matches!(error, QmpError::Timeout { .. }), "{error}");
}
