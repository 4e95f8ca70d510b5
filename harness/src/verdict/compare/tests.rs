//! Words, and whose fault a message on the console is.

use super::*;
use crate::guest::fault_kind::FaultKind;
use crate::verdict::FaultSummary;
use crate::verdict::fault::Phase;

use FaultKind::{Leak, Lockdep, OutOfMemory, RcuStall, Sanitizer, Warning};
use Phase::{Boot, Plan};
use Verdict::{Fail, Inconclusive, Pass};

fn judged(verdict: Verdict, fault_summary: Option<bool>) -> Judgement {
    let fault_summary = fault_summary.map(|certain| FaultSummary {
        certain,
        what: "something".into(),
    });
    Judgement {
        verdict,
        reasons: vec![],
        fault_summary,
        guards: vec![],
        expectations: vec![],
    }
}

fn fault(kind: FaultKind, phase: Phase, place: &str, count: u64) -> Fault {
    Fault {
        sign: Sign {
            kind,
            phase,
            place: place.into(),
        },
        severity: kind.severity(),
        count,
        line: 1,
        message: format!("{kind} in {place}"),
        words: String::new(),
        excerpt: String::new(),
    }
}

/// A run of which a test says what there is to say.
struct Run {
    judgement: Judgement,
    counters: Option<Verdict>,
    faults: Vec<Fault>,
    tainted: u64,
    live: bool,
}

impl Run {
    fn clean(verdict: Verdict) -> Run {
        Run {
            judgement: judged(verdict, None),
            counters: Some(verdict),
            faults: vec![],
            tainted: 0,
            live: false,
        }
    }

    /// A run whose counters say this, on a kernel that prints that.
    fn with(counters: Verdict, faults: Vec<Fault>) -> Run {
        let verdict = match counters {
            Pass => Inconclusive,
            other => other,
        };
        let warned = faults.iter().any(|fault| fault.sign.kind == Warning);
        Run {
            judgement: judged(verdict, Some(true)),
            counters: Some(counters),
            faults,
            tainted: if warned { TAINT_WARN } else { 0 },
            live: false,
        }
    }

    fn broken_off(certain: bool, faults: Vec<Fault>) -> Run {
        Run {
            judgement: judged(Inconclusive, Some(certain)),
            counters: None,
            faults,
            tainted: 0,
            live: false,
        }
    }

    fn seen(&self) -> Seen<'_> {
        Seen {
            judgement: &self.judgement,
            counters: self.counters,
            faults: &self.faults,
            tainted: self.tainted,
            live: self.live,
        }
    }
}

fn compared(base: &[Run], patched: &[Run]) -> (Change, Difference) {
    let [base, patched] =
        [base, patched].map(|runs| runs.iter().map(Run::seen).collect::<Vec<_>>());
    compare(&base, &patched)
}

#[track_caller]
fn check(base: &[Run], patched: &[Run], expected: Change) {
    let (word, difference) = compared(base, patched);
    assert_eq!(word, expected, "{difference:?}");
}

#[test]
fn a_side_must_be_unanimous() {
    let side = |runs: &[Run]| {
        let runs: Vec<Seen<'_>> = runs.iter().map(Run::seen).collect();
        let difference = Difference::of(&[], &runs);
        Side::among(&runs, Kernel::Patched, &difference)
    };
    let warned = || Run::with(Pass, vec![fault(Warning, Boot, "f", 1)]);
    assert_eq!(
        side(&[Run::clean(Pass), Run::clean(Pass)]),
        Side::Unanimous(Pass)
    );
    assert_eq!(side(&[Run::clean(Pass), Run::clean(Fail)]), Side::Timing);
    assert_eq!(side(&[]), Side::Doubtful);
    assert_eq!(
        side(&[warned(), warned()]),
        Side::Faulty("the kernel printed: WARNING in f".into())
    );
    assert_eq!(side(&[warned(), Run::clean(Pass)]), Side::Doubtful);
    assert_eq!(side(&[Run::broken_off(false, vec![])]), Side::Doubtful);
    assert_eq!(
        side(&[Run::broken_off(true, vec![])]),
        Side::Faulty("something".into())
    );
}

#[test]
fn a_kernel_alone_is_held_against_none() {
    let pass = || judged(Pass, None);
    assert_eq!(Side::of(&[pass(), pass()]), Side::Unanimous(Pass));
    assert_eq!(Side::of(&[pass(), judged(Fail, None)]), Side::Timing);
    assert_eq!(Side::of(&[]), Side::Doubtful);
    let warned = || judged(Inconclusive, Some(true));
    assert_eq!(
        Side::of(&[warned(), warned()]),
        Side::Faulty("something".into())
    );
    assert_eq!(Side::of(&[warned(), pass()]), Side::Doubtful);
    assert_eq!(
        Side::of(&[judged(Inconclusive, Some(false))]),
        Side::Doubtful
    );
}

#[test]
fn words_follow_the_table() {
    use Side::{Doubtful, Timing, Unanimous};
    let fault_summary = || Side::Faulty("x".into());
    let table = [
        (Unanimous(Pass), Unanimous(Pass), Change::Holds),
        (Unanimous(Pass), Unanimous(Fail), Change::Broken),
        (Unanimous(Fail), Unanimous(Pass), Change::Fixed),
        (Unanimous(Fail), Unanimous(Fail), Change::StillFailing),
        (Unanimous(Pass), Unanimous(Inconclusive), Change::Unclear),
        (Unanimous(Inconclusive), Unanimous(Pass), Change::Unclear),
        (Unanimous(Pass), Timing, Change::Unclear),
        (Unanimous(Pass), fault_summary(), Change::Broken),
        (Unanimous(Fail), fault_summary(), Change::Broken),
        (fault_summary(), fault_summary(), Change::Unclear),
        (fault_summary(), Unanimous(Pass), Change::Unclear),
        (Unanimous(Inconclusive), fault_summary(), Change::Broken),
        (Timing, fault_summary(), Change::Broken),
        (Doubtful, fault_summary(), Change::Unclear),
        (Unanimous(Pass), Doubtful, Change::Unclear),
    ];
    for (base, patched, expected) in table {
        assert_eq!(change(&base, &patched), expected, "{base:?} -> {patched:?}");
    }
}

#[test]
fn only_what_the_patched_kernel_alone_prints_is_its_fault() {
    let harmless = || fault(Warning, Boot, "acpi", 1);
    // The base warns in the same way: the counters are compared.
    check(
        &[Run::with(Pass, vec![harmless()])],
        &[Run::with(Pass, vec![harmless()])],
        Change::Holds,
    );
    check(
        &[Run::with(Fail, vec![harmless()])],
        &[Run::with(Pass, vec![harmless()])],
        Change::Fixed,
    );
    check(
        &[Run::with(Pass, vec![harmless()])],
        &[Run::with(Fail, vec![harmless()])],
        Change::Broken,
    );
    // It takes a warning away: that is no reason not to compare.
    check(
        &[Run::with(Pass, vec![harmless()])],
        &[Run::clean(Pass)],
        Change::Holds,
    );
    // A new one, whatever the counters say, and whatever the base prints besides.
    for kind in [Warning, Lockdep, Sanitizer, Leak, OutOfMemory] {
        check(
            &[Run::clean(Pass)],
            &[Run::with(Pass, vec![fault(kind, Plan, "f", 1)])],
            Change::Broken,
        );
        check(
            &[Run::with(Fail, vec![harmless()])],
            &[Run::with(Pass, vec![harmless(), fault(kind, Plan, "f", 1)])],
            Change::Broken,
        );
    }
}

#[test]
fn the_same_message_at_another_time_or_more_often_is_not_the_same() {
    let at = |phase, count| fault(Warning, phase, "f", count);
    let (word, difference) = compared(
        &[Run::with(Pass, vec![at(Boot, 1)])],
        &[Run::with(Pass, vec![at(Plan, 1)])],
    );
    assert_eq!(word, Change::Broken);
    assert_eq!((difference.new.len(), difference.gone.len()), (1, 1));
    // More often may be another instruction stream's doing, or the patch's.
    check(
        &[Run::with(Pass, vec![at(Plan, 1)])],
        &[Run::with(Pass, vec![at(Plan, 2)])],
        Change::Unclear,
    );
    check(
        &[
            Run::with(Pass, vec![at(Plan, 2)]),
            Run::with(Pass, vec![at(Plan, 5)]),
        ],
        &[
            Run::with(Pass, vec![at(Plan, 4)]),
            Run::with(Pass, vec![at(Plan, 5)]),
        ],
        Change::Holds,
    );
    // In some runs only.
    check(
        &[Run::clean(Pass), Run::clean(Pass)],
        &[Run::clean(Pass), Run::with(Pass, vec![at(Plan, 1)])],
        Change::Unclear,
    );
}

#[test]
fn messages_that_spoil_counters_are_no_ground_to_compare_them() {
    for kind in [OutOfMemory, Sanitizer, RcuStall, FaultKind::Oops] {
        let printed = || vec![fault(kind, Plan, "f", 1)];
        check(
            &[Run::with(Pass, printed())],
            &[Run::with(Pass, printed())],
            Change::Unclear,
        );
        check(
            &[Run::with(Pass, printed())],
            &[Run::clean(Pass)],
            Change::Unclear,
        );
    }
    // A guest that does not go its whole course has no counters, whoever warns.
    let warned = || vec![fault(Warning, Boot, "f", 1)];
    check(
        &[Run::broken_off(true, warned())],
        &[Run::broken_off(true, warned())],
        Change::Unclear,
    );
    check(
        &[Run::with(Pass, warned())],
        &[Run::broken_off(true, warned())],
        Change::Broken,
    );
}

#[test]
fn more_messages_than_are_kept_are_told_apart_by_nobody() {
    let many = || {
        let mut many = fault(Warning, Plan, "", 7);
        many.sign = Sign::uncounted(Warning);
        vec![fault(Warning, Plan, "f", 100), many]
    };
    check(
        &[Run::with(Pass, many())],
        &[Run::with(Pass, many())],
        Change::Unclear,
    );
}

#[test]
fn a_busy_host_is_not_the_patch_s_fault() {
    let live = |mut run: Run| {
        run.live = true;
        run
    };
    let warned = || fault(Warning, Boot, "f", 1);
    let stalled = fault(RcuStall, Plan, "x", 1);
    check(
        &[live(Run::with(Pass, vec![warned()]))],
        &[live(Run::with(Pass, vec![warned(), stalled]))],
        Change::Unclear,
    );
}

#[test]
fn a_new_taint_flag_is_a_fault_by_itself() {
    let tainted = |flags| Run {
        tainted: flags,
        ..Run::clean(Pass)
    };
    // TAINT_TEST, which is none of the kernel's own doing and still new.
    check(&[tainted(0)], &[tainted(1 << 18)], Change::Broken);
    check(&[tainted(1 << 18)], &[tainted(1 << 18)], Change::Holds);
    // A warning that did not get onto the console.
    let warned = || Run {
        tainted: TAINT_WARN,
        ..Run::with(Pass, vec![])
    };
    check(&[tainted(0)], &[warned()], Change::Broken);
    check(&[warned()], &[warned()], Change::Holds);
    // Something that nothing explains.
    check(&[tainted(0)], &[Run::with(Pass, vec![])], Change::Unclear);
}

#[test]
fn broken_wins_over_unclear() {
    assert_eq!(
        exit_code([Change::Unclear, Change::Broken, Change::Fixed]),
        1
    );
    assert_eq!(exit_code([Change::Holds, Change::Unclear]), 3);
    assert_eq!(exit_code([Change::StillFailing, Change::Holds]), 0);
    assert_eq!(exit_code([]), 3);
    assert_eq!(exit_code([Change::DoesNotApply]), 3);
    assert_eq!(exit_code([Change::DoesNotApply, Change::Holds]), 0);
    assert_eq!(exit_code([Change::DoesNotApply, Change::Broken]), 1);
}

#[test]
fn an_inconclusive_side_stays_one() {
    check(
        &[Run::clean(Inconclusive)],
        &[Run::clean(Pass)],
        Change::Unclear,
    );
}

#[test]
fn a_second_pass_looks_at_the_consoles_alone() {
    let change = |base: Run, patched: Run| cleanliness(&[base.seen()], &[patched.seen()]).0;
    let leak = |place: &str| vec![fault(Leak, Plan, place, 1)];
    assert_eq!(change(Run::clean(Pass), Run::clean(Fail)), Change::Holds);
    assert_eq!(
        change(Run::clean(Pass), Run::with(Pass, leak("f"))),
        Change::Broken
    );
    assert_eq!(
        change(Run::with(Pass, leak("f")), Run::with(Pass, leak("f"))),
        Change::Holds
    );
    assert_eq!(
        change(Run::with(Pass, leak("f")), Run::with(Pass, leak("g"))),
        Change::Broken
    );
    // Guests that do not get to their end say nothing, unless only the patched one crashes.
    let broken_off = |certain| Run::broken_off(certain, vec![]);
    assert_eq!(change(broken_off(false), Run::clean(Pass)), Change::Unclear);
    assert_eq!(change(Run::clean(Pass), broken_off(false)), Change::Unclear);
    assert_eq!(change(Run::clean(Pass), broken_off(true)), Change::Broken);
    assert_eq!(change(broken_off(true), broken_off(true)), Change::Unclear);
}

// A panic may be among messages that the console lost: no answer, and no fault for certain.
#[test]
fn lost_messages_make_a_comparison_unclear() {
    let lost = |count| fault(FaultKind::LostMessages, Plan, "", count);
    let (clean, lossy) = (Run::clean(Pass), Run::with(Pass, vec![lost(1)]));
    let both = |base: &Run, patched: &Run| {
        let (base, patched) = ([base.seen(), base.seen()], [patched.seen(), patched.seen()]);
        (compare(&base, &patched).0, cleanliness(&base, &patched).0)
    };
    assert_eq!(both(&clean, &clean), (Change::Holds, Change::Holds));
    assert_eq!(both(&clean, &lossy), (Change::Unclear, Change::Unclear));
    assert_eq!(both(&lossy, &lossy), (Change::Unclear, Change::Unclear));
    // What the base lost may be what the patched kernel prints.
    let warns = Run::with(Pass, vec![fault(Warning, Plan, "f", 1)]);
    assert_eq!(both(&lossy, &warns), (Change::Unclear, Change::Unclear));
}
