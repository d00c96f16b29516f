//! Patterns and policies of chance: nothing panics, and the hints never rule out what matches.

use super::*;
use crate::context::Asked;
use crate::context::Steps;
use crate::pattern::{Case, Pattern, Syntax};
use proptest::prelude::*;

/// As a pattern is defined, by a table: whether the rest of the pattern matches the rest of the text.
fn matches_slowly(pattern: &[char], text: &[char]) -> bool {
    let mut known = vec![vec![false; text.len() + 1]; pattern.len() + 1];
    known[pattern.len()][text.len()] = true;
    for (at, piece) in pattern.iter().enumerate().rev() {
        for from in (0..=text.len()).rev() {
            let has_next = from < text.len();
            known[at][from] = match piece {
                '*' => known[at + 1][from] || has_next && known[at][from + 1],
                '?' => has_next && known[at + 1][from + 1],
                literal => has_next && text[from] == *literal && known[at + 1][from + 1],
            };
        }
    }
    known[0][0]
}

/// Whether a pattern matches, and in how many steps.
fn matched(pattern: &Pattern, text: &str, case: Case) -> (bool, usize) {
    let steps = Steps::new(u32::MAX);
    let matches = pattern.matches(text.as_bytes(), case, &Asked { context: &Keys(VALUES), steps: &steps });
    (matches, (u32::MAX - steps.left()) as usize)
}

const WILD: Syntax = Syntax { wildcards: true, variables: true };
const VALUES: &[(&str, &[&str])] = &[("a:v", &["ab"]), ("a:w", &["é"]), ("a:none", &[])];

proptest! {
    #[test]
    fn patterns_match_as_they_are_defined(
        start in "[ab*?é]{0,8}",
        end in "[ab*?é]{0,8}",
        variable in "(\\$\\{a:[vw]\\})?",
        text in "([abé]{0,10}|[ab]{50,80}|[abé]{100,140})",
    ) {
        let value = match &*variable { "" => "", "${a:v}" => "ab", _ => "é" };
        let parsed = Pattern::parse(&format!("{start}{variable}{end}"), WILD).unwrap();
        let (slow, chars): (Vec<char>, Vec<char>) = (format!("{start}{value}{end}").chars().collect(), text.chars().collect());
        let (found, steps) = matched(&parsed, &text, Case::Sensitive);
        prop_assert_eq!(found, matches_slowly(&slow, &chars));
        prop_assert!(steps <= parsed.steps(text.len()), "{} {}", steps, parsed.steps(text.len()));
        // Without case, and a text that differs in nothing else.
        let (found, _) = matched(&parsed, &text.replace('a', "A"), Case::Ignored);
        prop_assert_eq!(found, matches_slowly(&slow, &chars));
    }

    #[test]
    fn a_match_is_bounded_by_the_product_of_the_lengths(pattern in "[a*?]{0,200}b?", len in 0..1200_usize) {
        let parsed = Pattern::parse(&pattern, WILD).unwrap();
        let (_, steps) = matched(&parsed, &"a".repeat(len), Case::Sensitive);
        // A word of positions has 64 bytes of the text.
        prop_assert!(steps <= parsed.steps(len));
        prop_assert!(parsed.steps(len) <= 8 + 9 * (pattern.len() + 2) * (len / 64 + 1));
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
