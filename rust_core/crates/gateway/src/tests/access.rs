//! Users, policies of buckets and anonymous requests: what is allowed, and what a refusal says.

use super::*;
use std::net::IpAddr;

const ALICE: &str = "arn:aws:iam::000000000000:user/alice";

/// A store with the bucket `box`, the object `k` in it, and users of its account and of another.
pub(super) struct Site {
    pub(super) fixture: Fixture,
}

impl Site {
    /// Each user has the statements that stand with the name.
    pub(super) fn new(own: &[(&str, &[&str])], others: &[(&str, &[&str])]) -> Self {
        let fixture = Fixture::new();
        let mut rows = IdentityTables::of_root(OWNER, &[("ROOT", "secret")]);
        add_account(&mut rows, OTHER_ACCOUNT, OTHER);
        own.iter().for_each(|(name, statements)| add_user(&mut rows, ACCOUNT, name, name, statements));
        others.iter().for_each(|(name, statements)| add_user(&mut rows, OTHER_ACCOUNT, name, name, statements));
        fixture.gateway.access().signers.replace(rows).unwrap();
        let site = Self { fixture };
        for (method, target) in [("PUT", "/box"), ("PUT", "/box/k"), ("DELETE", "/box?publicAccessBlock")] {
            assert!(site.fixture.call(method, target, &[], b"").status < 300, "{method} {target}");
        }
        site
    }

    pub(super) fn begin(&self, name: &str, method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> Begun {
        let signer = Signer::new(name, name.as_bytes(), "us-east-1", now_ms() / 1000).unwrap();
        self.fixture.begin_as(&signer, method, target, headers, body)
    }

    pub(super) fn by(&self, name: &str, method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> Response {
        self.finish(self.begin(name, method, target, headers, body), body)
    }

    /// The answer to a request that has begun.
    pub(super) fn finish(&self, begun: Begun, body: &[u8]) -> Response {
        match self.fixture.settled(begun) {
            Ok(request) => self.fixture.carry_out(&request, body),
            Err(answer) => *answer,
        }
    }

    pub(super) fn get(&self, name: &str, target: &str) -> u16 {
        self.by(name, "GET", target, &[], b"").status
    }

    fn anonymous(&self, method: &str, target: &str, ingress: &Ingress) -> Response {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let list: [(&[u8], &[u8]); 2] = [(b"host", b"localhost:9000"), (b"referer", b"https://a.test/x")];
        let (method, path, query) = (method.as_bytes(), path.as_bytes(), query.as_bytes());
        let head = RequestHead { method, path, query, headers: Headers::new(&list) };
        match self.fixture.begun(&head, ingress) {
            Ok(request) => self.fixture.carry_out(&request, b""),
            Err(answer) => *answer,
        }
    }

    /// Sends a form that nobody has signed.
    pub(super) fn post(&self, bucket: &str, fields: &[(&str, &str)]) -> Response {
        self.fixture.post_to(bucket, &super::forms::unsigned(fields, b"content"))
    }

    /// Gives `box` a policy of these statements.
    pub(super) fn policy(&self, statements: &[&str]) -> Response {
        let document = format!(r#"{{"Version": "2012-10-17", "Statement": [{{{}}}]}}"#, statements.join("}, {"));
        self.fixture.call("PUT", "/box?policy", &[], document.as_bytes())
    }

    fn with_policy(self, statements: &[&str]) -> Self {
        let answer = self.policy(statements);
        assert_eq!(answer.status, 204, "{}", text(&answer));
        self
    }
}

pub(super) fn text(answer: &Response) -> String {
    let ResponseBody::Bytes(document) = &answer.body else { return String::new() };
    String::from_utf8_lossy(document).replace("&quot;", "\"")
}

const READ: &str = r#""Effect": "Allow", "Action": ["s3:GetObject", "s3:ListBucket"], "Resource": ["arn:aws:s3:::box", "arn:aws:s3:::box/*"]"#;

#[test]
fn a_user_may_do_what_its_policies_allow() {
    let site = Site::new(&[("alice", &[READ]), ("bob", &[])], &[]);
    assert_eq!(
        [site.get("alice", "/box/k"), site.get("alice", "/box"), site.get("alice", "/box/none")],
        [200, 200, 404]
    );
    for (name, method, target, action, resource) in [
        ("bob", "GET", "/box/k", "s3:GetObject", "arn:aws:s3:::box/k"),
        ("alice", "PUT", "/box/k", "s3:PutObject", "arn:aws:s3:::box/k"),
        ("alice", "GET", "/box/k?versionId=null", "s3:GetObjectVersion", "arn:aws:s3:::box/k"),
        ("alice", "GET", "/box?versions", "s3:ListBucketVersions", "arn:aws:s3:::box"),
        ("alice", "GET", "/", "s3:ListAllMyBuckets", "arn:aws:s3:::*"),
    ] {
        let answer = site.by(name, method, target, &[], b"");
        let expected = format!(
            "User: arn:aws:iam::000000000000:user/{name} is not authorized to perform: {action} on resource: \
             \"{resource}\" because no identity-based policy allows the {action} action</Message>"
        );
        assert!(answer.status == 403 && text(&answer).contains(&expected), "{}", text(&answer));
    }
}

#[test]
fn what_a_user_makes_belongs_to_its_account() {
    let all = r#""Effect": "Allow", "Action": "s3:*", "Resource": "*""#;
    let site = Site::new(&[("alice", &[all])], &[("eve", &[all])]);
    assert_eq!(site.by("alice", "PUT", "/own", &[], b"").status, 200);
    assert!(text(&site.fixture.call("GET", "/", &[], b"")).contains("<Name>own</Name>"));
    assert!(text(&site.by("alice", "GET", "/", &[], b"")).contains("<Name>box</Name>"));
    assert!(!text(&site.by("eve", "GET", "/", &[], b"")).contains("<Name>"));
    assert_eq!(code(&site.by("eve", "PUT", "/own", &[], b"")), "BucketAlreadyExists");
    // Another account's policies reach no further than its own buckets.
    assert_eq!([site.get("eve", "/box/k"), site.get("eve", "/own")], [403; 2]);
    assert!(text(&site.by("eve", "GET", "/box/k", &[], b"")).contains("because no resource-based policy allows"));
}

#[test]
fn a_refusal_says_which_kind_of_policy_denies() {
    let deny = r#""Effect": "Deny", "Action": "s3:GetObject", "Resource": "*""#;
    let site = Site::new(&[("alice", &[READ, deny]), ("bob", &[READ]), ("carl", &[])], &[]).with_policy(&[
        r#""Effect": "Deny", "Principal": "*", "Action": "s3:ListBucket", "Resource": "arn:aws:s3:::box""#,
    ]);
    let denied = |name, target| text(&site.by(name, "GET", target, &[], b""));
    assert!(denied("alice", "/box/k").contains("with an explicit deny in an identity-based policy</Message>"));
    assert!(denied("bob", "/box").contains("with an explicit deny in a resource-based policy</Message>"));
    // Whose own policies allow nothing learns nothing of the bucket's.
    assert!(denied("carl", "/box").contains("because no identity-based policy allows"));
}

#[test]
fn conditions_ask_what_the_server_knows() {
    let when = |condition: &str| format!(r#"{READ}, "Condition": {condition}"#);
    for (condition, status) in [
        (r#"{"IpAddress": {"aws:SourceIp": "127.0.0.0/8"}}"#, 200),
        (r#"{"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}"#, 403),
        (r#"{"Bool": {"aws:SecureTransport": "false"}}"#, 200),
        (r#"{"Bool": {"aws:SecureTransport": "true"}}"#, 403),
        (r#"{"DateGreaterThan": {"aws:CurrentTime": "2020-01-01T00:00:00Z"}}"#, 200),
        (r#"{"NumericLessThan": {"aws:EpochTime": "1"}}"#, 403),
        (r#"{"StringEquals": {"aws:username": "alice", "aws:userid": "AIDA"}}"#, 200),
        (r#"{"ArnLike": {"aws:PrincipalArn": "arn:aws:iam::*:user/al*"}}"#, 200),
        (r#"{"StringEquals": {"aws:PrincipalAccount": "000000000000", "s3:ResourceAccount": "000000000000"}}"#, 200),
        (r#"{"StringEquals": {"s3:signatureversion": "AWS4-HMAC-SHA256", "s3:authType": "REST-HEADER"}}"#, 200),
        (r#"{"StringEquals": {"aws:UserAgent": "x/1"}}"#, 200),
        (r#"{"StringLike": {"aws:Referer": "https://b.test/*"}}"#, 200),
        (r#"{"Null": {"s3:prefix": "true", "aws:MultiFactorAuthPresent": "true"}}"#, 200),
    ] {
        let site = Site::new(&[("alice", &[&when(condition)])], &[]);
        // Headers that sound like keys mean nothing.
        let headers = [
            ("user-agent", "x/1"),
            ("referer", "https://b.test/a"),
            ("x-forwarded-for", "10.0.0.1"),
            ("x-forwarded-proto", "https"),
            ("sourceip", "10.0.0.1"),
        ];
        assert_eq!(site.by("alice", "GET", "/box/k", &headers, b"").status, status, "{condition}");
    }
}

#[test]
fn conditions_ask_what_the_request_says() {
    let list = |condition: &str| {
        format!(r#""Effect": "Allow", "Action": "s3:ListBucket", "Resource": "*", "Condition": {condition}"#)
    };
    let site = Site::new(
        &[
            ("alice", &[&list(r#"{"StringLike": {"s3:prefix": "home/${aws:username}/*"}}"#)]),
            ("bob", &[&list(r#"{"NumericLessThanEquals": {"s3:max-keys": "10"}}"#)]),
        ],
        &[],
    );
    for (name, query, status) in [
        ("alice", "list-type=2&prefix=home/alice/x", 200),
        ("alice", "list-type=2&prefix=home/bob/x", 403),
        ("alice", "list-type=2", 403),
        ("bob", "max-keys=10", 200),
        ("bob", "max-keys=11", 403),
        ("bob", "", 403),
    ] {
        assert_eq!(site.get(name, &format!("/box?{query}")), status, "{name} {query}");
    }
    let put = |condition: &str| {
        format!(
            r#""Effect": "Allow", "Action": ["s3:PutObject", "s3:PutObjectTagging"], "Resource": "*", "Condition": {condition}"#
        )
    };
    for (condition, headers, status) in [
        (r#"{"StringEquals": {"s3:RequestObjectTag/team": "red"}}"#, &[("x-amz-tagging", "Team=red")][..], 200),
        (r#"{"StringEquals": {"s3:RequestObjectTag/team": "red"}}"#, &[("x-amz-tagging", "team=blue")], 403),
        (
            r#"{"ForAllValues:StringEquals": {"s3:RequestObjectTagKeys": ["team"]}}"#,
            &[("x-amz-tagging", "team=1")],
            200,
        ),
        (
            r#"{"ForAllValues:StringEquals": {"s3:RequestObjectTagKeys": ["team"]}}"#,
            &[("x-amz-tagging", "a=1&team=1")],
            403,
        ),
        (r#"{"StringEquals": {"s3:x-amz-storage-class": "STANDARD"}}"#, &[("x-amz-storage-class", "STANDARD")], 200),
        (r#"{"StringEquals": {"s3:x-amz-storage-class": "STANDARD"}}"#, &[], 403),
        (r#"{"Null": {"s3:if-none-match": "false"}}"#, &[("if-none-match", "*")], 200),
        (r#"{"Null": {"s3:if-none-match": "false"}}"#, &[], 403),
    ] {
        let site = Site::new(&[("alice", &[&put(condition)])], &[]);
        assert_eq!(site.by("alice", "PUT", "/box/new", headers, b"x").status, status, "{condition} {headers:?}");
    }
}

#[test]
fn headers_need_actions_of_their_own() {
    let put =
        r#""Effect": "Allow", "Action": ["s3:PutObject", "s3:DeleteObject*", "s3:CreateBucket"], "Resource": "*""#;
    let site = Site::new(&[("alice", &[put])], &[]);
    assert_eq!(site.by("alice", "PUT", "/box/x", &[], b"x").status, 200);
    for (method, target, header, value, action) in [
        ("PUT", "/box/x", "x-amz-tagging", "a=1", "s3:PutObjectTagging"),
        ("PUT", "/box/x", "x-amz-acl", "private", "s3:PutObjectAcl"),
        ("PUT", "/box/x", "x-amz-object-lock-legal-hold", "ON", "s3:PutObjectLegalHold"),
        ("PUT", "/box/x", "x-amz-object-lock-mode", "GOVERNANCE", "s3:PutObjectRetention"),
        ("POST", "/box/x?uploads", "x-amz-tagging", "a=1", "s3:PutObjectTagging"),
        ("PUT", "/box/x", "x-amz-meta-orcas-replica", "1/b v p", "s3:ReplicateObject"),
        ("POST", "/box/x?uploads", "x-amz-meta-orcas-replica", "1/b v p", "s3:ReplicateObject"),
        ("PUT", "/box/x", "x-amz-orcas-replica-time", "Fri, 02 Jan 2026 03:04:05 GMT", "s3:ReplicateObject"),
        ("DELETE", "/box/x", "x-amz-bypass-governance-retention", "true", "s3:BypassGovernanceRetention"),
        ("PUT", "/new", "x-amz-bucket-object-lock-enabled", "true", "s3:PutBucketObjectLockConfiguration"),
    ] {
        let answer = site.by("alice", method, target, &[(header, value)], b"");
        assert!(
            answer.status == 403 && text(&answer).contains(&format!("perform: {action} ")),
            "{header}: {}",
            text(&answer)
        );
    }
    let asked = site.by("alice", "DELETE", "/box/x", &[("x-amz-bypass-governance-retention", "false")], b"");
    // What the bucket says of it: there are no locks in it.
    assert_eq!(asked.status, 400);
}

#[test]
fn copies_need_the_source_and_the_destination() {
    let (read, write) = (
        r#""Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::box/k""#,
        r#""Effect": "Allow", "Action": "s3:PutObject", "Resource": "arn:aws:s3:::box/to*""#,
    );
    let site = Site::new(&[("both", &[read, write]), ("reader", &[read]), ("writer", &[write])], &[]);
    let copy = |name: &str, to: &str, from: &str| site.by(name, "PUT", to, &[("x-amz-copy-source", from)], b"").status;
    assert_eq!(copy("both", "/box/to", "box/k"), 200);
    assert_eq!(
        [copy("reader", "/box/to", "box/k"), copy("writer", "/box/to", "box/k"), copy("both", "/box/k", "box/k")],
        [403; 3]
    );
    assert_eq!([copy("both", "/box/to", "box/other"), copy("both", "/box/to", "box/k?versionId=null")], [403; 2]);
}

#[test]
fn each_key_of_a_deletion_is_decided_on_its_own() {
    let delete = r#""Effect": "Allow", "Action": "s3:DeleteObject", "Resource": "arn:aws:s3:::box/mine/*""#;
    let site = Site::new(&[("alice", &[delete])], &[]);
    let document = b"<Delete><Object><Key>mine/a</Key></Object><Object><Key>k</Key></Object></Delete>";
    let md5 = base64_encode(&Md5Hasher::digest(document));
    let answer = text(&site.by("alice", "POST", "/box?delete", &[("content-md5", &md5)], document));
    assert!(answer.contains("<Deleted><Key>mine/a</Key>") && answer.contains("<Error><Key>k</Key>"), "{answer}");
    assert_eq!(site.fixture.call("HEAD", "/box/k", &[], b"").status, 200);
}

#[test]
fn a_key_that_is_missing_is_only_told_to_whoever_may_list() {
    let get = r#""Effect": "Allow", "Action": ["s3:GetObject*"], "Resource": "*""#;
    let site = Site::new(&[("alice", &[READ]), ("bob", &[get])], &[]).with_policy(&[
        r#""Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::box/*""#,
    ]);
    assert_eq!(
        [site.get("alice", "/box/none"), site.get("bob", "/box/none"), site.get("bob", "/box/k")],
        [404, 403, 200]
    );
    assert_eq!(site.by("bob", "HEAD", "/box/none", &[], b"").status, 403);
    assert_eq!(site.anonymous("GET", "/box/none", &near(0)).status, 403);
    assert_eq!(site.anonymous("GET", "/box/k", &near(0)).status, 200);
    assert_eq!(site.fixture.call("GET", "/box/none", &[], b"").status, 404);
}

#[test]
fn the_policy_of_a_bucket_decides_on_everybody() {
    let get = r#""Action": "s3:GetObject", "Resource": "arn:aws:s3:::box/*""#;
    let named = format!(
        r#""Effect": "Allow", "Principal": {{"AWS": ["{ALICE}", "arn:aws:iam::444455556666:user/eve", "444455556666"]}}, {get}"#
    );
    let site = Site::new(&[("alice", &[]), ("bob", &[])], &[("eve", &[READ]), ("mallory", &[])]).with_policy(&[&named]);
    // In one account either suffices; across accounts both are needed.
    assert_eq!(
        [
            site.get("alice", "/box/k"),
            site.get("bob", "/box/k"),
            site.get("eve", "/box/k"),
            site.get("mallory", "/box/k")
        ],
        [200, 403, 200, 403]
    );
    assert_eq!(site.anonymous("GET", "/box/k", &near(0)).status, 403);
    // It takes effect at once, and is gone at once. Headers of answers are for those who sign.
    let public = format!(r#""Effect": "Allow", "Principal": "*", {get}"#);
    let site = site.with_policy(&[&public]);
    assert_eq!(site.anonymous("GET", "/box/k", &near(0)).status, 200);
    assert_eq!(site.anonymous("GET", "/box/k?response-content-type=a", &near(0)).status, 400);
    assert_eq!([site.get("bob", "/box/k"), site.get("mallory", "/box/k")], [200, 403]);
    assert_eq!(site.fixture.call("DELETE", "/box?policy", &[], b"").status, 204);
    assert_eq!(site.anonymous("GET", "/box/k", &near(0)).status, 403);
    assert_eq!(site.get("alice", "/box/k"), 403);
}

#[test]
fn anonymous_requests_meet_conditions() {
    let get = r#""Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::box/*""#;
    for (condition, client, status) in [
        (r#"{"IpAddress": {"aws:SourceIp": "203.0.113.0/24"}}"#, "203.0.113.7", 200),
        (r#"{"IpAddress": {"aws:SourceIp": "203.0.113.0/24"}}"#, "203.0.114.7", 403),
        (r#"{"StringLike": {"aws:Referer": "https://a.test/*"}}"#, "203.0.113.7", 200),
        (r#"{"StringEquals": {"aws:PrincipalType": "Anonymous"}}"#, "203.0.113.7", 200),
        (r#"{"Null": {"aws:PrincipalArn": "false"}}"#, "203.0.113.7", 403),
    ] {
        let site = Site::new(&[], &[]).with_policy(&[&format!(r#"{get}, "Condition": {condition}"#)]);
        let ingress = Ingress { client: client.parse::<IpAddr>().ok(), ..near(0) };
        assert_eq!(site.anonymous("GET", "/box/k", &ingress).status, status, "{condition} {client}");
    }
}

#[test]
fn a_policy_is_read_as_it_was_written() {
    let site = Site::new(&[("alice", &[])], &[]);
    assert_eq!(code(&site.fixture.call("GET", "/box?policy", &[], b"")), "NoSuchBucketPolicy");
    assert_eq!(code(&site.fixture.call("GET", "/box?policyStatus", &[], b"")), "NoSuchBucketPolicy");
    let written =
        r#"{"Statement":[{"Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::box/*"}]}"#;
    assert_eq!(site.fixture.call("PUT", "/box?policy", &[], written.as_bytes()).status, 204);
    let read = site.fixture.call("GET", "/box?policy", &[], b"");
    assert_eq!((text(&read).as_str(), header(&read, "content-type")), (written, Some("application/json")));
    assert!(text(&site.fixture.call("GET", "/box?policyStatus", &[], b"")).contains("<IsPublic>true</IsPublic>"));
    let reopened = site.fixture.reopened(|_| ());
    assert_eq!(text(&reopened.call("GET", "/box?policy", &[], b"")), written);
}

#[test]
fn a_policy_that_is_refused_changes_nothing() {
    let get = r#""Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::box/*""#;
    let site =
        Site::new(&[("alice", &[])], &[]).with_policy(&[&format!(r#"{get}, "Principal": {{"AWS": "{ALICE}"}}"#)]);
    for (statement, expected) in [
        (
            format!(r#"{get}, "Principal": {{"AWS": "arn:aws:iam::000000000000:user/nobody"}}"#),
            "Invalid principal in policy",
        ),
        (format!(r#"{get}, "Principal": {{"AWS": "999999999999"}}"#), "Invalid principal in policy"),
        (get.replace("box/*", "c/*") + r#", "Principal": "*""#, "Policy has invalid resource"),
        (
            format!(r#"{get}, "Principal": "*", "Condition": {{"StringEquals": {{"s3:TlsVersion": "1.3"}}}}"#),
            "The condition key s3:TlsVersion is not supported",
        ),
    ] {
        let answer = site.policy(&[&statement]);
        assert_eq!((answer.status, code(&answer).as_str()), (400, "MalformedPolicy"), "{statement}");
        assert!(text(&answer).contains(expected), "{}", text(&answer));
    }
    assert_eq!(site.get("alice", "/box/k"), 200);
}

#[test]
fn the_public_access_block_keeps_everybody_out() {
    let block = |setting: &str| {
        format!("<PublicAccessBlockConfiguration><{setting}>true</{setting}></PublicAccessBlockConfiguration>")
    };
    let get = r#""Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::box/*""#;
    let site = Site::new(&[("alice", &[])], &[("eve", &[READ])]).with_policy(&[get]);
    let statuses = |site: &Site| {
        [site.get("alice", "/box/k"), site.get("eve", "/box/k"), site.anonymous("GET", "/box/k", &near(0)).status]
    };
    assert_eq!(statuses(&site), [200, 200, 200]);
    // Whoever belongs to the account of the bucket may still do what the policy says.
    assert_eq!(
        site.fixture.call("PUT", "/box?publicAccessBlock", &[], block("RestrictPublicBuckets").as_bytes()).status,
        200
    );
    assert_eq!(statuses(&site), [200, 403, 403]);
    assert_eq!(
        site.fixture.call("PUT", "/box?publicAccessBlock", &[], block("BlockPublicPolicy").as_bytes()).status,
        200
    );
    assert_eq!(statuses(&site), [200, 200, 200]);
    let refused = site.policy(&[get]);
    assert_eq!(code(&refused), "AccessDenied");
    assert!(text(&refused).contains("because public policies are prevented by the BlockPublicPolicy setting"));
    // A new bucket has all of it.
    assert_eq!(site.fixture.call("PUT", "/new", &[], b"").status, 200);
    let document = format!(r#"{{"Statement": {{{}}}}}"#, get.replace(":box/", ":new/"));
    assert_eq!(code(&site.fixture.call("PUT", "/new?policy", &[], document.as_bytes())), "AccessDenied");
}

#[test]
fn a_service_account_may_do_no_more_than_its_own_policy_says() {
    let all = r#""Effect": "Allow", "Action": "s3:*", "Resource": "*""#;
    let site = Site::new(&[("alice", &[all])], &[]);
    let narrow = r#"{"Statement": {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}}"#;
    let key = ("SA".to_owned(), "SA".to_owned(), ALICE.to_owned(), Some("session:SA".to_owned()), true);
    let rows = IdentityTables {
        policies: vec![("session:SA".into(), narrow.into())],
        keys: vec![key],
        ..IdentityTables::default()
    };
    site.fixture.gateway.access().signers.change(rows, &[]).unwrap();
    assert_eq!([site.get("SA", "/box/k"), site.by("SA", "PUT", "/box/k", &[], b"").status], [200, 403]);
    let refused = text(&site.by("SA", "PUT", "/box/k", &[], b""));
    assert!(refused.contains("because no session policy allows the s3:PutObject action"), "{refused}");
    // A key that is removed is refused by the next request.
    site.fixture.gateway.access().signers.change(IdentityTables::default(), &["SA".into()]).unwrap();
    assert_eq!(code(&site.by("SA", "GET", "/box/k", &[], b"")), "InvalidAccessKeyId");
    assert_eq!(site.get("alice", "/box/k"), 200);
}
