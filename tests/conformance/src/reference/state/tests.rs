//! The system, asked directly.

#![allow(clippy::unwrap_used, reason = "a test that can't go on panics")]

use super::*;

/// A system and a clock that stands still.
struct System {
    state: State,
    now: Instant,
}

impl System {
    fn new() -> Self {
        Self {
            state: State::default(),
            now: Instant::now(),
        }
    }

    fn ask(&mut self, request: Request) -> Answer {
        self.state.answer(request, self.now)
    }

    fn done(&mut self, request: Request) {
        assert_eq!(self.ask(request), Answer::Done);
    }

    fn refused(&mut self, request: Request) -> Refusal {
        match self.ask(request) {
            Answer::Refused { refusal, .. } => refusal,
            answer => panic!("not refused: {answer:?}"),
        }
    }

    fn write(&mut self, name: &str, rows: &[&str]) {
        self.done(begin(name, 1));
        self.done(append(name, rows));
    }

    fn prepare(&mut self, name: &str) {
        let answer = self.ask(prepare(name));
        assert!(matches!(answer, Answer::Prepared { .. }), "{answer:?}");
    }

    fn commit(&mut self, name: &str) {
        self.done(commit(name));
    }

    fn ledger(&mut self, name: &str) -> Option<u64> {
        let transaction = name.to_owned();
        match self.ask(Request::Ledger { transaction }) {
            Answer::Ledger { rows } => rows,
            answer => panic!("not a ledger entry: {answer:?}"),
        }
    }

    /// Visible rows, sorted.
    fn visible(&self) -> Vec<String> {
        let mut rows: Vec<_> = self
            .state
            .read(true)
            .into_iter()
            .map(|row| row.text)
            .collect();
        rows.sort_unstable();
        rows
    }
}

fn begin(name: &str, epoch: u64) -> Request {
    Request::Begin {
        transaction: name.to_owned(),
        owner: "owner".to_owned(),
        writer: "writer".to_owned(),
        epoch,
    }
}

fn append(name: &str, rows: &[&str]) -> Request {
    Request::Append {
        transaction: name.to_owned(),
        rows: rows.iter().map(|row| (*row).to_owned()).collect(),
    }
}

fn prepare(name: &str) -> Request {
    let transaction = name.to_owned();
    Request::Prepare { transaction }
}

fn commit(name: &str) -> Request {
    let transaction = name.to_owned();
    Request::Commit { transaction }
}

fn abort(name: &str) -> Request {
    let transaction = name.to_owned();
    Request::Abort { transaction }
}

fn fence(epoch: u64) -> Request {
    let owner = "owner".to_owned();
    Request::Fence { owner, epoch }
}

#[test]
fn shows_what_is_committed_and_nothing_else() {
    let mut system = System::new();
    system.write("a", &["one", "two"]);
    assert!(system.visible().is_empty());
    system.prepare("a");
    assert!(system.visible().is_empty());
    assert_eq!(system.state.read(false).len(), 2);
    assert_eq!(system.ledger("a"), None);
    system.commit("a");
    assert_eq!(system.visible(), ["one", "two"]);
    assert_eq!(system.ledger("a"), Some(2));
}

#[test]
fn readers_stop_before_the_first_transaction_that_is_undecided() {
    let mut system = System::new();
    system.write("a", &["a"]);
    system.write("b", &["b"]);
    system.prepare("b");
    system.commit("b");
    assert!(system.visible().is_empty(), "`a` may yet come before `b`");
    system.done(abort("a"));
    assert_eq!(system.visible(), ["b"]);
}

#[test]
fn lanes_keep_the_order_in_which_transactions_were_begun() {
    let mut system = System::new();
    let names = ["0", "1", "2", "3", "4", "5", "6", "7"];
    for name in names {
        system.write(name, &[&format!("{name}-a"), &format!("{name}-b")]);
        system.prepare(name);
    }
    for name in names.iter().rev() {
        system.commit(name);
    }
    let rows = system.state.read(true);
    let lanes: std::collections::BTreeSet<_> = rows.iter().map(|row| &row.lane).collect();
    assert_eq!(lanes.len(), 2);
    for lane in lanes {
        let texts: Vec<_> = rows
            .iter()
            .filter(|row| row.lane == *lane)
            .map(|row| &row.text)
            .collect();
        assert!(texts.is_sorted(), "{texts:?}");
    }
}

#[test]
fn is_committed_once_and_not_aborted_after() {
    let mut system = System::new();
    system.write("a", &["a"]);
    assert_eq!(system.refused(commit("a")), Refusal::NotPrepared);
    system.prepare("a");
    assert_eq!(system.refused(prepare("a")), Refusal::NotOpen);
    assert_eq!(system.refused(append("a", &["b"])), Refusal::NotOpen);
    system.commit("a");
    assert_eq!(system.refused(commit("a")), Refusal::NoSuchTransaction);
    assert_eq!(system.refused(abort("a")), Refusal::IsCommitted);
    assert_eq!(system.refused(begin("a", 1)), Refusal::Exists);
    assert_eq!(system.visible(), ["a"]);
}

#[test]
fn what_is_aborted_leaves_nothing() {
    let mut system = System::new();
    system.write("open", &["a"]);
    system.write("prepared", &["b"]);
    system.prepare("prepared");
    for name in ["open", "prepared"] {
        system.done(abort(name));
        assert_eq!(system.refused(abort(name)), Refusal::NoSuchTransaction);
        assert_eq!(system.refused(commit(name)), Refusal::NoSuchTransaction);
    }
    assert!(system.state.names_of_undecided().is_empty());
    assert!(system.state.read(false).is_empty());
}

#[test]
fn older_epochs_write_nothing_and_decide_what_is_prepared() {
    let mut system = System::new();
    system.write("open", &["a"]);
    system.write("prepared", &["b"]);
    system.prepare("prepared");
    system.done(fence(2));
    assert_eq!(system.refused(fence(1)), Refusal::Fenced);
    assert_eq!(system.refused(begin("new", 1)), Refusal::Fenced);
    assert_eq!(system.refused(append("open", &["c"])), Refusal::Fenced);
    assert_eq!(system.refused(prepare("open")), Refusal::Fenced);
    system.done(begin("newer", 2));
    system.commit("prepared");
    system.done(abort("open"));
    assert_eq!(system.visible(), ["b"]);
}

#[test]
fn a_crash_loses_what_is_not_durable() {
    let mut system = System::new();
    system.write("committed", &["a"]);
    system.prepare("committed");
    system.commit("committed");
    system.write("prepared", &["b"]);
    system.prepare("prepared");
    system.write("in memory", &["c"]);
    system.prepare("in memory");
    let transaction = "in memory".to_owned();
    system.done(Request::BackDoor(BackDoor::CommitInMemory { transaction }));
    system.write("open", &["d"]);
    system.state.crash();
    assert_eq!(system.visible(), ["a"]);
    assert_eq!(system.state.names_of_undecided(), ["prepared", "in memory"]);
    assert_eq!(system.ledger("in memory"), None);
    system.commit("prepared");
    assert_eq!(system.visible(), ["a", "b"]);
}

#[test]
fn forgets_what_is_undecided_for_too_long() {
    let mut system = System::new();
    system.write("committed", &["a"]);
    system.prepare("committed");
    system.commit("committed");
    system.write("prepared", &["b"]);
    system.prepare("prepared");
    let now = system.now;
    system.state.pass(EXPIRY - Duration::from_millis(1), now);
    let answer = system.ask(Request::Undecided);
    let left = Undecided {
        transaction: "prepared".to_owned(),
        prepared: true,
        expires_in_millis: 1,
    };
    assert_eq!(
        answer,
        Answer::Undecided {
            transactions: vec![left]
        }
    );
    system.state.pass(Duration::from_millis(1), now);
    assert_eq!(
        system.refused(commit("prepared")),
        Refusal::NoSuchTransaction
    );
    assert_eq!(system.visible(), ["a"]);
}

#[test]
fn takes_all_rows_of_a_request_or_none() {
    let mut system = System::new();
    system.done(begin("a", 1));
    for (bad, why) in [
        ("two words", Refusal::Constraint),
        ("", Refusal::Constraint),
        ("zwölf", Refusal::Constraint),
        (&*"x".repeat(MAX_ROW + 1), Refusal::Oversize),
    ] {
        assert_eq!(system.refused(append("a", &["good", bad])), why);
    }
    system.done(append("a", &[&"x".repeat(MAX_ROW)]));
    assert_eq!(system.ask(prepare("a")), Answer::Prepared { rows: 1 });
}

#[test]
fn limits_the_prepared_transactions_of_each_writer() {
    let mut system = System::new();
    for number in 0..MAX_PREPARED {
        system.write(&number.to_string(), &["row"]);
        system.prepare(&number.to_string());
    }
    system.write("above", &["row"]);
    assert_eq!(system.refused(prepare("above")), Refusal::TooManyPrepared);
    system.commit("0");
    system.prepare("above");
}

#[test]
fn is_faulty_as_told() {
    let mut system = System::new();
    system.write("a", &["a"]);
    system.state.set_fault(Some(Fault::Full));
    assert_eq!(system.refused(append("a", &["b"])), Refusal::Full);
    system.prepare("a");
    system.state.set_fault(Some(Fault::NoRights));
    assert_eq!(system.refused(commit("a")), Refusal::NoRights);
    assert_eq!(system.ledger("a"), None);
    system.state.set_fault(None);
    system.commit("a");
}

#[test]
fn loses_what_it_is_told_to_lose() {
    let mut system = System::new();
    system.write("a", &["a"]);
    assert!(!system.state.lose("a"), "it is only open");
    system.prepare("a");
    assert!(system.state.lose("a"));
    assert!(system.state.names_of_undecided().is_empty());
}
