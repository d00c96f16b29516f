//! Patterns and policies of chance: nothing panics, and the hints never rule out what matches.

use super::*;
use crate::pattern::{Case, Pattern, Syntax};
use proptest::prelude::*;

/// As a pattern is defined: a run of anything is tried at every length.
fn matches_slowly(pattern: &[char], text: &[char]) -> bool {
    match pattern.split_first() {
        None => text.is_empty(),
        Some(('*', rest)) => (0..=text.len()).any(|len| matches_slowly(rest, &text[len..])),
        Some(('?', rest)) => !text.is_empty() && matches_slowly(rest, &text[1..]),
        Some((literal, rest)) => text.first() == Some(literal) && matches_slowly(rest, &text[1..]),
    }
}

proptest! {
    #[test]
    fn patterns_match_as_they_are_defined(pattern in "[ab*?é]{0,8}", text in "[abé]{0,10}") {
        let parsed = Pattern::parse(&pattern, Syntax { wildcards: true, variables: true }).unwrap();
        let (slow, chars): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
        prop_assert_eq!(parsed.matches(text.as_bytes(), Case::Sensitive, &()), matches_slowly(&slow, &chars));
    }

    #[test]
    fn statements_match_as_their_parts_do(
        pattern in "(arn:aws:s3:::)?[ab*?/]{1,5}",
        bucket in "[ab]{1,3}",
        key in "(/[ab/]{0,2})?",
    ) {
        let statement = format!(r#""Effect": "Allow", "Action": "s3:Get*", "Resource": "{pattern}""#);
        let parsed = Policy::parse(&document(&[&statement]), PolicyKind::Identity, None);
        prop_assume!(parsed.is_ok());
        let resource = format!("arn:aws:s3:::{bucket}{key}");
        let (slow, chars): (Vec<char>, Vec<char>) = (pattern.chars().collect(), resource.chars().collect());
        let allowed = allows(&Arc::new(parsed.unwrap()), "s3:GetObject", &resource);
        prop_assert_eq!(allowed, matches_slowly(&slow, &chars));
    }

    #[test]
    fn nothing_panics(text in "[\\[\\]{}\":,a0 ]{0,40}", value in "\\PC{0,30}") {
        let quoted = serde_json::to_string(&value).unwrap();
        let texts = [
            text,
            format!(r#"{{"Statement": {quoted}}}"#),
            format!(r#"{{"Version": "2012-10-17", "Statement": {{"Effect": "Allow", "Principal": {{"AWS": {quoted}}},
                "Action": {quoted}, "Resource": {quoted}, "Condition": {{{quoted}: {{{quoted}: {quoted}}}}}}}}}"#),
            document(&[&format!(r#""Effect": "Allow", "Action": "*", "Resource": "*", "Condition": {{
                "StringLike": {{"a:b": {quoted}}}, "DateEquals": {{"a:b": {quoted}}}}}"#)]),
        ];
        for text in texts {
            for kind in [PolicyKind::Identity, PolicyKind::Resource, PolicyKind::Trust] {
                let _ = Policy::parse(&text, kind, Some("b"));
            }
        }
        for operator in ["DateEquals", "NumericEquals", "IpAddress", "ArnLike", "StringLike"] {
            let _ = holds(&format!(r#"{{"{operator}": {{"a:b": []}}}}"#), &[("a:b", &[&value])]);
        }
        let dated = r#"{"DateEquals": {"a:b": "2024"}, "IpAddress": {"a:b": "10.0.0.0/8"}}"#;
        let _ = holds(dated, &[("a:b", &[&value])]);
    }
}
