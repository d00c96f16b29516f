//! Rules and versions in tables.

use bytes::Bytes;
use proptest::prelude::*;

use super::*;

/// 2014-01-15T00:00:00Z.
const DAY: u64 = 1_389_744_000_000;
const HOUR: u64 = 3_600_000;

fn rule(id: &str, prefix: &str) -> Rule {
    let filter = Filter { prefix: prefix.into(), ..Filter::default() };
    Rule { id: id.to_owned(), enabled: true, filter, ..Rule::default() }
}

fn expiring(id: &str, prefix: &str, expiration: Expiration) -> Rule {
    Rule { expiration: Some(expiration), ..rule(id, prefix) }
}

fn noncurrent(id: &str, days: u32, newer: u32) -> Rule {
    Rule { noncurrent: Some(Noncurrent { days, newer }), ..rule(id, "") }
}

fn rules(rules: &[Rule]) -> Rules {
    Rules::new(rules.to_vec())
}

/// The same, but one rule is not enabled.
fn without(rules: &Rules, disabled: usize) -> Rules {
    let mut all = rules.all().to_vec();
    all[disabled].enabled = false;
    Rules::new(all)
}

/// What cannot concern a version is not looked at, however many rules there are.
#[test]
fn only_rules_that_may_concern_a_version_are_looked_at() {
    let tag = |key: String, value: &str| (key.into_bytes(), value.as_bytes().to_vec());
    let tagged = |n: usize| {
        let mut rule = expiring("t", "", Expiration::Days(1));
        rule.filter.tags = (0..9).map(|shared| tag(format!("shared-{shared}"), "1")).collect();
        rule.filter.tags.push(tag("own".to_owned(), &n.to_string()));
        rule
    };
    let prefixed = |n: usize| expiring("p", &format!("dir-{n}/"), Expiration::Days(2));
    let all: Vec<Rule> = (0..500).map(tagged).chain((0..500).map(prefixed)).collect();
    let all = rules(&all);
    assert_eq!(all.untagged_for(b"dir-17/a").collect::<Vec<_>>(), [517]);
    assert_eq!(all.untagged_for(b"other").count(), 0);
    assert_eq!(all.asking_for(b"own", b"3").collect::<Vec<_>>(), [3]);
    assert_eq!(all.asking_for(b"shared-0", b"1").count(), 0);
}

/// The time and the rule for a version of 100 bytes with the tag a=1.
fn due(rules: &Rules, key: &str, modified_ms: u64, place: EntryState) -> Option<(u64, String)> {
    let tags = [("a".into(), "1".into())];
    let facts = EntryFacts { key: key.as_bytes(), size: 100, modified_ms, tags: &tags };
    rules.due(&facts, place, DAY_MS).map(|due| (due.at_ms, due.rule.id.clone()))
}

fn at(time: u64, id: &str) -> Option<(u64, String)> {
    Some((time, id.to_owned()))
}

#[test]
fn days_end_at_the_next_midnight() {
    let three = rules(&[expiring("r", "", Expiration::Days(3))]);
    for (modified, expected) in [
        // The example of the user guide: 15 January 10:30 and three days make 19 January 00:00.
        (DAY + 10 * HOUR + HOUR / 2, DAY + 4 * DAY_MS),
        (DAY + 1, DAY + 4 * DAY_MS),
        (DAY + DAY_MS - 1, DAY + 4 * DAY_MS),
        (DAY, DAY + 4 * DAY_MS),
        (DAY + DAY_MS, DAY + 5 * DAY_MS),
        (0, 4 * DAY_MS),
        // 28 February 2016, 23:00: the leap day counts.
        (1_456_700_400_000, 1_456_617_600_000 + 4 * DAY_MS),
    ] {
        assert_eq!(due(&three, "k", modified, EntryState::Current), at(expected, "r"), "{modified}");
    }
    let facts = EntryFacts { key: b"k", size: 0, modified_ms: 25_000, tags: &[] };
    assert_eq!(three.due(&facts, EntryState::Current, 10_000).map(|due| due.at_ms), Some(60_000));
}

#[test]
fn a_date_holds_for_older_and_newer_objects() {
    let dated = rules(&[expiring("r", "", Expiration::Date(DAY))]);
    for modified in [0, DAY - 1, DAY + 500] {
        assert_eq!(due(&dated, "k", modified, EntryState::Current), at(DAY, "r"));
    }
}

#[test]
fn a_filter_admits_what_meets_all_of_it() {
    let one = |change: &dyn Fn(&mut Filter)| {
        let mut rule = expiring("r", "logs/", Expiration::Days(1));
        change(&mut rule.filter);
        due(&rules(&[rule]), "logs/1", DAY, EntryState::Current).is_some()
    };
    let tag = |key: &str, value: &str| (key.as_bytes().to_vec(), value.as_bytes().to_vec());
    assert!(one(&|_| {}));
    assert!(!one(&|filter| filter.prefix = b"logs/2".to_vec()));
    assert!(one(&|filter| filter.tags = vec![tag("a", "1")]));
    assert!(!one(&|filter| filter.tags = vec![tag("a", "2")]));
    assert!(!one(&|filter| filter.tags = vec![tag("a", "1"), tag("b", "1")]));
    // Both bounds exclude their value.
    assert!(one(&|filter| (filter.greater_than, filter.less_than) = (Some(99), Some(101))));
    assert!(!one(&|filter| filter.greater_than = Some(100)));
    assert!(!one(&|filter| filter.less_than = Some(100)));
}

#[test]
fn the_earliest_of_the_enabled_rules_counts() {
    let all = rules(&[
        expiring("late", "", Expiration::Days(9)),
        expiring("early", "a/", Expiration::Days(2)),
        expiring("same", "a/b", Expiration::Days(2)),
        expiring("off", "", Expiration::Days(1)),
    ]);
    let all = without(&all, 3);
    assert_eq!(due(&all, "a/b", DAY, EntryState::Current), at(DAY + 3 * DAY_MS, "early"));
    assert_eq!(due(&all, "b", DAY, EntryState::Current), at(DAY + 10 * DAY_MS, "late"));
    let all = without(&all, 0);
    assert_eq!(due(&all, "b", DAY, EntryState::Current), None);
}

#[test]
fn noncurrent_versions_count_from_when_they_became_so() {
    let kept = rules(&[noncurrent("two", 3, 2)]);
    let version = |newer| EntryState::Noncurrent { since_ms: DAY + HOUR, newer };
    assert_eq!(due(&kept, "k", 0, version(1)), None);
    assert_eq!(due(&kept, "k", 0, version(2)), at(DAY + 4 * DAY_MS, "two"));
    // An older rule for all of them does not lose to one that keeps some.
    let both = rules(&[noncurrent("two", 3, 2), noncurrent("all", 10, 0)]);
    assert_eq!(due(&both, "k", 0, version(0)), at(DAY + 11 * DAY_MS, "all"));
    assert_eq!(due(&both, "k", 0, version(5)), at(DAY + 4 * DAY_MS, "two"));
    assert_eq!(due(&both, "k", 0, EntryState::Current), None);
    assert_eq!(due(&rules(&[expiring("c", "", Expiration::Days(1))]), "k", 0, version(9)), None);
}

#[test]
fn a_marker_expires_at_once_or_when_the_object_would() {
    let alone = |rule: Rule| due(&rules(&[rule]), "k", DAY + HOUR, EntryState::LoneMarker);
    assert_eq!(alone(expiring("m", "", Expiration::Markers(true))), at(DAY + HOUR, "m"));
    assert_eq!(alone(expiring("m", "", Expiration::Markers(false))), None);
    assert_eq!(alone(expiring("m", "x", Expiration::Markers(true))), None);
    assert_eq!(alone(expiring("d", "", Expiration::Days(1))), at(DAY + 2 * DAY_MS, "d"));
    assert_eq!(alone(expiring("d", "", Expiration::Date(0))), at(0, "d"));
    assert_eq!(alone(expiring("d", "", Expiration::Date(DAY + 9 * DAY_MS))), at(DAY + 9 * DAY_MS, "d"));
    assert_eq!(alone(noncurrent("n", 1, 0)), None);
    // It has neither tags nor a size.
    let mut tagged = expiring("t", "", Expiration::Days(1));
    tagged.filter.tags = vec![(b"a".to_vec(), b"1".to_vec())];
    assert_eq!(alone(tagged), None);
    let mut sized = expiring("s", "", Expiration::Days(1));
    sized.filter.less_than = Some(1_000);
    assert_eq!(alone(sized), None);
}

#[test]
fn uploads_are_aborted_by_their_own_rule() {
    let abort = Rule { abort_days: Some(7), ..rule("u", "tmp/") };
    let all = rules(&[abort, expiring("e", "", Expiration::Days(1))]);
    assert_eq!(due(&all, "tmp/a", DAY + 1, EntryState::Upload), at(DAY + 8 * DAY_MS, "u"));
    assert_eq!(due(&all, "other", DAY, EntryState::Upload), None);
    assert_eq!(due(&all, "tmp/a", DAY, EntryState::Current), at(DAY + 2 * DAY_MS, "e"));
}

#[test]
fn only_prefixes_with_rules_are_looked_at() {
    let all = rules(&[
        expiring("1", "b/", Expiration::Days(1)),
        expiring("2", "b/c", Expiration::Days(1)),
        noncurrent("3", 1, 0),
        expiring("4", "a", Expiration::Date(1)),
        expiring("5", "zz", Expiration::Markers(false)),
        Rule { abort_days: Some(1), ..rule("6", "u/") },
    ]);
    assert_eq!(all.prefixes(), [b""]);
    let all = without(&all, 2);
    assert_eq!(all.prefixes(), [&b"a"[..], b"b/"]);
    assert_eq!(all.upload_prefixes(), [&b"u/"[..]]);
    assert!(Rules::default().prefixes().is_empty());
}

#[test]
fn tags_matter_only_where_a_rule_asks_for_them() {
    let mut tagged = expiring("t", "a/", Expiration::Days(1));
    tagged.filter.tags = vec![(b"a".to_vec(), b"1".to_vec())];
    tagged.filter.greater_than = Some(10);
    let all = rules(&[expiring("e", "", Expiration::Days(1)), tagged]);
    assert!(all.needs_tags(b"a/1", 11));
    assert!(!all.needs_tags(b"b/1", 11));
    assert!(!all.needs_tags(b"a/1", 10));
    let all = without(&all, 1);
    assert!(!all.needs_tags(b"a/1", 11));
}

/// Prefixes, keys and tags that overlap.
fn any_rule() -> impl Strategy<Value = Rule> {
    let action = prop_oneof![
        (1..4u32).prop_map(|days| (Some(Expiration::Days(days)), None, None)),
        (0..3u64).prop_map(|day| (Some(Expiration::Date(DAY + day * DAY_MS)), None, None)),
        any::<bool>().prop_map(|markers| (Some(Expiration::Markers(markers)), None, None)),
        (1..3u32, 0..3u32).prop_map(|(days, newer)| (None, Some(Noncurrent { days, newer }), None)),
        (1..3u32).prop_map(|days| (None, None, Some(days))),
    ];
    let size = prop::option::weighted(0.2, 0..4u64);
    let filter = ("[ab]{0,4}", prop::collection::btree_map("[xy]", "[12]", 0..=2), size.clone(), size);
    (prop::bool::weighted(0.8), filter, action).prop_map(
        |(enabled, (prefix, tags, greater_than, less_than), action)| {
            let tags = tags.into_iter().map(|(key, value)| (key.into_bytes(), value.into_bytes())).collect();
            let filter = Filter { prefix: prefix.into_bytes(), tags, greater_than, less_than };
            let (expiration, noncurrent, abort_days) = action;
            Rule { id: String::new(), enabled, filter, expiration, noncurrent, abort_days }
        },
    )
}

proptest! {
    /// Rules that are found by key and tags are those that each rule by itself finds.
    #[test]
    fn of_many_rules_those_that_concern_a_version_are_found(
        some in prop::collection::vec(any_rule(), 0..40),
        key in "[ab]{0,5}",
        tags in prop::collection::btree_map("[xy]", "[12]", 0..=2),
        size in 0..4u64,
    ) {
        let tags: Vec<(Bytes, Bytes)> = tags.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        let facts = EntryFacts { key: key.as_bytes(), size, modified_ms: DAY, tags: &tags };
        let all = rules(&some);
        let since = EntryState::Noncurrent { since_ms: DAY, newer: 1 };
        for place in [EntryState::Current, EntryState::LoneMarker, since, EntryState::Upload] {
            let alone = |at: usize| rules(&some[at..=at]).due(&facts, place, DAY_MS).map(|due| (due.at_ms, at));
            let found = all.due(&facts, place, DAY_MS).map(|due| {
                (due.at_ms, all.all().iter().position(|rule| std::ptr::eq(rule, due.rule)).unwrap())
            });
            prop_assert_eq!(found, (0..some.len()).filter_map(alone).min());
        }
        let needs = |at: usize| rules(&some[at..=at]).needs_tags(key.as_bytes(), size);
        prop_assert_eq!(all.needs_tags(key.as_bytes(), size), (0..some.len()).any(needs));
    }

    /// Nothing lives for less than its days, nor for more than one day longer.
    #[test]
    fn days_are_never_cut_short(modified_ms in 0..1u64 << 48, days in 1..=u32::MAX, day_ms in 1..DAY_MS) {
        let all = rules(&[expiring("r", "", Expiration::Days(days))]);
        let facts = EntryFacts { key: b"", size: 0, modified_ms, tags: &[] };
        let at_ms = all.due(&facts, EntryState::Current, day_ms).unwrap().at_ms;
        let lived = at_ms - modified_ms;
        prop_assert!(lived > u64::from(days) * day_ms && lived <= (u64::from(days) + 1) * day_ms);
        prop_assert_eq!(at_ms % day_ms, 0);
    }
}
