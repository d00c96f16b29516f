//! What an access decision costs: a user with five policies of ten statements, and one with a policy of a thousand.
//!
//! `cargo bench --features criterion --bench access`. An access decision must not allocate: that is counted first.

#[path = "support/counting.rs"]
mod counting;

use std::hint::black_box;
use std::sync::Arc;

use criterion::Criterion;
use orcas_access::{Context, Kind, Policies, Policy, PolicyKind, Principal, Request, evaluate};

use counting::{Allocated, Counting};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const ACCOUNT: &str = "111122223333";

struct Address;

impl Context for Address {
    fn visit(&self, key: &str, each: &mut dyn FnMut(&str)) {
        if key == "aws:sourceip" {
            each("203.0.113.9");
        }
    }
}

fn policy(kind: PolicyKind, statements: &[String]) -> Arc<Policy> {
    let text = format!(r#"{{"Version": "2012-10-17", "Statement": [{}]}}"#, statements.join(","));
    Arc::new(Policy::parse(&text, kind, None).expect("a policy"))
}

/// Statements as people write them: of some services, for some buckets, some with conditions. The last one allows.
fn usual(policies: usize, statements: usize) -> Vec<Arc<Policy>> {
    let statement = |n: usize| {
        match n {
        n if n + 1 == policies * statements => {
            r#"{"Effect": "Allow", "Action": ["s3:GetObject", "s3:PutObject"], "Resource": "arn:aws:s3:::data/home/${aws:username}/*",
                "Condition": {"IpAddress": {"aws:SourceIp": "203.0.113.0/24"}}}"#.to_owned()
        }
        n if n % 5 == 0 => format!(r#"{{"Effect": "Deny", "Action": "s3:Delete*", "Resource": "arn:aws:s3:::keep-{n}/*"}}"#),
        n if n % 5 == 1 => r#"{"Effect": "Allow", "Action": "iam:Get*", "Resource": "*"}"#.to_owned(),
        n if n % 5 == 2 => format!(r#"{{"Effect": "Allow", "Action": "s3:*", "Resource": "arn:aws:s3:::team-{n}*"}}"#),
        n => format!(
            r#"{{"Effect": "Allow", "Action": ["s3:GetObject", "s3:ListBucket"],
                "Resource": ["arn:aws:s3:::bucket-{n}", "arn:aws:s3:::bucket-{n}/*"]}}"#
        ),
    }
    };
    let chunk = |at: usize| (at * statements..(at + 1) * statements).map(statement).collect::<Vec<_>>();
    (0..policies).map(|at| policy(PolicyKind::Identity, &chunk(at))).collect()
}

fn main() {
    let mut criterion = Criterion::default().without_plots().configure_from_args();
    let principal =
        Principal::new(Kind::User, ACCOUNT.into(), "arn:aws:iam::111122223333:user/bob".into(), "bob".into());
    let request = Request {
        principal: &principal,
        action: "s3:GetObject",
        resource: b"arn:aws:s3:::data/home/bob/2024/report.parquet",
        resource_account: ACCOUNT,
        context: &Address,
    };
    let of_bucket: Vec<String> = (0..20)
        .map(|n| {
            format!(
                r#"{{"Effect": "Allow", "Principal": {{"AWS": "arn:aws:iam::111122223333:user/u{n}"}}, "Action": "s3:*",
                    "Resource": "arn:aws:s3:::data/shared-{n}/*"}}"#
            )
        })
        .collect();
    let (five, thousand) = (usual(5, 10), usual(1, 1000));
    let of_bucket = policy(PolicyKind::Resource, &of_bucket);
    for (name, identity, resource) in [
        ("5 policies of 10 statements", &five, None),
        ("5 policies of 10 statements, a bucket policy of 20", &five, Some(&*of_bucket)),
        ("a policy of 1000 statements", &thousand, None),
    ] {
        let policies = Policies { identity, resource, ..Policies::default() };
        let before = Allocated::now();
        assert!(evaluate(&request, &policies).is_allowed(), "{name}");
        assert_eq!(before.since().count, 0, "{name}");
        criterion.bench_function(name, |bencher| bencher.iter(|| evaluate(black_box(&request), black_box(&policies))));
    }
}
