//! Conditions on time and size, and requests with a token.

use super::state::{NOW_MS, TestView};
use super::versions::{delete, delete_one};
use super::*;

const NOW_S: u64 = NOW_MS / 1000;

fn on(state: StateConditions) -> Precondition {
    Precondition { state: Some(Box::new(state)), ..Precondition::default() }
}

fn delete_on(precondition: Precondition) -> Intent {
    delete_one(DeleteEntry { precondition, ..delete(None) })
}

fn failed(condition: &'static str) -> Refusal {
    Refusal::PreconditionFailed { condition }
}

#[test]
fn a_deletion_may_name_the_time_and_the_size() {
    let time = |modified_s| on(StateConditions { modified_s: Some(modified_s), ..StateConditions::default() });
    let size = |size| on(StateConditions { size: Some(size), ..StateConditions::default() });
    for mut state in [TestView::with_bucket(), TestView::versioned()] {
        state.run_at(NOW_MS + 999, put("k", 7)).unwrap();
        assert_eq!(refused(state.run(delete_on(time(NOW_S - 1)))), failed("x-amz-if-match-last-modified-time"));
        assert_eq!(refused(state.run(delete_on(time(NOW_S + 1)))), failed("x-amz-if-match-last-modified-time"));
        assert_eq!(refused(state.run(delete_on(size(8)))), failed("x-amz-if-match-size"));
        let tag = Precondition { if_match: Some(EtagMatch::Any), ..size(8) };
        assert_eq!(refused(state.run(delete_on(tag))), failed("x-amz-if-match-size"));
        let both = on(StateConditions { modified_s: Some(NOW_S), size: Some(7), ..StateConditions::default() });
        state.run(delete_on(both.clone())).unwrap();
        // What is not there is deleted, unless a tag is asked for.
        state.run(delete_on(both)).unwrap();
        let tag = Precondition { if_match: Some(EtagMatch::Any), ..size(7) };
        assert_eq!(refused(state.run(delete_on(tag))), Refusal::NoSuchKey);
    }
}

#[test]
fn a_condition_is_about_the_version_that_a_deletion_names() {
    let mut state = TestView::versioned();
    let first = state.stored(1);
    state.stored(2);
    let of = |size| on(StateConditions { size: Some(size), ..StateConditions::default() });
    let named = |size| delete_one(DeleteEntry { precondition: of(size), ..delete(first) });
    assert_eq!(refused(state.run(named(2))), failed("x-amz-if-match-size"));
    assert_eq!(refused(state.run(delete_on(of(1)))), failed("x-amz-if-match-size"));
    state.run(named(1)).unwrap();
    state.run(delete_on(of(2))).unwrap();
    assert!(state.version("k").delete_marker);
}

fn rename(precondition: Precondition, from_conditions: SourceConditions) -> Box<Move> {
    let (from_key, key) = (Bytes::from("a"), Bytes::from("b"));
    Box::new(Move { from_bucket: BUCKET, from_key, from_conditions, bucket: BUCKET, key, precondition })
}

#[test]
fn the_destination_of_a_rename_may_be_named_by_its_time() {
    let since = |time| on(StateConditions { if_modified_since_s: Some(time), ..StateConditions::default() });
    let unmodified = |time| on(StateConditions { if_unmodified_since_s: Some(time), ..StateConditions::default() });
    let attempt = |state: &mut TestView, precondition| {
        state.run(Intent::MoveObject(rename(precondition, SourceConditions::default())))
    };
    let mut state = TestView::with_bucket();
    state.run(put("a", 1)).unwrap();
    assert_eq!(refused(attempt(&mut state, since(NOW_S - 1))), failed("If-Modified-Since"), "there is none");
    state.run(put("b", 2)).unwrap();
    assert_eq!(refused(attempt(&mut state, since(NOW_S))), failed("If-Modified-Since"));
    assert_eq!(refused(attempt(&mut state, unmodified(NOW_S - 1))), failed("If-Unmodified-Since"));
    let tag = Precondition { if_match: Some(EtagMatch::Any), ..unmodified(NOW_S - 1) };
    attempt(&mut state, tag).unwrap();
    state.run(put("a", 3)).unwrap();
    attempt(&mut state, since(NOW_S - 1)).unwrap();
    state.run(put("a", 4)).unwrap();
    attempt(&mut state, unmodified(NOW_S)).unwrap();
    assert_eq!((state.version("b").size, state.keys()), (4, 1));
}

#[test]
fn a_condition_on_the_source_of_a_rename_has_its_own_name() {
    let mut state = TestView::with_bucket();
    state.run(put("a", 1)).unwrap();
    let source = |kind| SourceConditions { kind, if_none_match: Some(EtagMatch::Any), ..SourceConditions::default() };
    let mut attempt = |kind| refused(state.run(Intent::MoveObject(rename(Precondition::default(), source(kind)))));
    assert_eq!(attempt(SourceKind::Rename), failed("x-amz-rename-source-If-None-Match"));
    assert_eq!(attempt(SourceKind::Copy), failed("x-amz-copy-source-If-None-Match"));
}

#[test]
fn a_move_under_a_token_is_made_once() {
    let mut state = TestView::with_bucket();
    state.run(put("a", 1)).unwrap();
    let once = |request| Intent::MoveOnce {
        moved: rename(Precondition::default(), SourceConditions::default()),
        token: RequestToken { token: [1; 32], request: [request; 32] },
    };
    assert!(matches!(state.run(once(1)), Ok(Outcome::Put(_))));
    assert_eq!(refused(state.run(once(1))), Refusal::NoSuchKey, "as long as nobody remembers it");
    state.requests.insert([1; 32], [1; 32]);
    let before = state.sequence;
    assert!(matches!(state.run(once(1)), Ok(Outcome::Done)));
    assert_eq!(refused(state.run(once(2))), Refusal::TokenReused);
    assert_eq!((state.version("b").size, state.sequence), (1, before));
}
