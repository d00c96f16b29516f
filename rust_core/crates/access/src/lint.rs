//! Warnings about policies: allowed, and yet probably not meant.

use crate::keys::is_key_of_s3;
use crate::pattern::ArnPattern;
use crate::policy::{Policy, Statement};
use crate::principals::Principals;

/// One sentence for each.
pub fn warnings(policy: &Policy) -> Vec<String> {
    let mut found = Vec::new();
    for (place, statement) in policy.statements.iter().enumerate() {
        let name = match &statement.sid {
            Some(sid) => format!("Statement {sid}"),
            None => format!("Statement {}", place + 1),
        };
        found.extend(of_statement(statement).into_iter().map(|problem| format!("{name} {problem}")));
    }
    found
}

fn of_statement(statement: &Statement) -> Vec<String> {
    let mut found = Vec::new();
    for action in statement.actions.texts() {
        let text = &action.text;
        if text.get(..3).is_some_and(|vendor| vendor.eq_ignore_ascii_case("s3:")) {
            if action.matching().next().is_none() {
                found.push(format!("names the action {text}, which S3 does not have."));
            } else if !statement.actions.are_negated() && !statement.resources.take(action) {
                found.push(format!("names the action {text}, which applies to none of its resources."));
            }
        }
    }
    let has_all = statement.actions.texts().any(|action| action.text == "*") && !statement.actions.are_negated();
    let on_all =
        statement.resources.patterns.iter().any(|it| matches!(it, ArnPattern::All)) && !statement.resources.negated;
    if has_all && on_all && statement.allows && statement.conditions.is_empty() {
        found.push("allows everything, also to create users and to change policies.".to_owned());
    }
    if statement.actions.are_negated() && statement.allows {
        found.push("allows every action but those that it names, also actions of services yet to come.".to_owned());
    }
    if statement.resources.negated && statement.allows {
        found.push("allows every resource but those that it names.".to_owned());
    }
    if statement.principals.as_ref().is_some_and(Principals::are_public)
        && statement.allows
        && statement.conditions.is_empty()
    {
        found.push("allows everybody what it names, without a condition.".to_owned());
    }
    for condition in &statement.conditions {
        let key = &condition.key;
        if key.starts_with("s3:") && !is_key_of_s3(key) {
            found.push(format!("asks for {key}, which requests to S3 never have."));
        }
    }
    let unused = |pattern: &ArnPattern| {
        let text = pattern.patterns().iter().any(|it| !it.has_variables() && it.contains(b"${"));
        text.then_some("has ${ in a resource, which is no variable: the version of the policy is not 2012-10-17.")
    };
    found.extend(statement.resources.patterns.iter().filter_map(unused).map(str::to_owned).take(1));
    found
}
