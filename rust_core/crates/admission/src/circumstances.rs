//! What conditions of policies may ask about a request: the keys of AWS, from what the server knows of it and from what its
//! head says. Made when a statement asks, so a request that no condition concerns pays nothing.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::sync::Arc;

use crate::access_control::AccessControl;
use crate::decision_log::DecisionLog;
use crate::ingress::Ingress;
use crate::request_context::RequestContext;
use orcas_access::{Context, REQUEST_STEPS_MAX, Steps};
use orcas_http::{Headers, Query, timestamp};
use orcas_s3::Operation;
use orcas_s3::documents::BucketPolicy;
use orcas_s3::operations::Part;
use orcas_s3::stored_headers::{LOCATION, OF_A_BODY};
use orcas_s3::tags::{self, TaggingDirective};
use orcas_s3::target::CopySource;
use orcas_sigv4::Authentication;

/// A request as conditions see it.
pub struct Circumstances<'a> {
    pub access: &'a AccessControl,
    pub ingress: &'a Ingress,
    pub how: Authentication,
    pub operation: Operation,
    pub headers: &'a Headers<'a>,
    pub query: &'a Query,
    /// The source of a copy or a move.
    pub source: Option<&'a CopySource>,
    /// The version that the action is about, if the request names one.
    pub version: Option<&'a str>,
    /// The part of the source that the action hands over.
    pub part: Option<Part>,
    /// The headers have what the body asks for.
    pub is_body_read: bool,
    /// Something was asked that only the body of the request says, or the source. An access decision then does not count.
    pub is_uncertain: Cell<bool>,
    /// Set if something was asked that only the index has, on a thread that must not read it. An access decision then does
    /// not count, and is to be made on a worker.
    pub is_postponed: &'a Cell<bool>,
    /// The steps that this decision may take, with the others on the request.
    pub steps: &'a Steps,
    /// The log of access decisions, if the logs want them.
    pub decisions: Option<&'a DecisionLog>,
    /// What is supposed where there is no request: somebody asks what would be decided on one.
    pub supposed: Option<&'a Supposed>,
}

/// The assumptions about a request that nobody has sent. Its decision may wait for the disk.
#[derive(Default)]
pub struct Supposed {
    /// Keys of conditions, in lower case, in place of what is known.
    pub context: HashMap<String, Vec<String>>,
    /// `bucket_policy` is in place of the policy that the bucket has; `None` then stands for none.
    pub replaces_policy: bool,
    pub bucket_policy: Option<Arc<BucketPolicy>>,
    /// Keys that policies have asked for, and that are not supposed.
    pub missing: RefCell<BTreeSet<String>>,
}

impl Supposed {
    /// Whether it has this key, and its values.
    fn visit(&self, key: &str, each: &mut dyn FnMut(&str)) -> bool {
        let Some(values) = self.context.get(key) else {
            self.missing.borrow_mut().insert(key.to_owned());
            return false;
        };
        values.iter().for_each(|value| each(value));
        true
    }
}

/// The circumstances without the head, for what is authorized after that is gone.
#[derive(Clone)]
pub struct KeptCircumstances {
    pub ingress: Ingress,
    pub how: Authentication,
    pub operation: Operation,
    pub headers: Vec<(Vec<u8>, Vec<u8>)>,
    pub query: Query,
}

impl KeptCircumstances {
    pub fn of(context: &RequestContext<'_>) -> Self {
        let RequestContext { ingress, how, operation, query, .. } = context;
        Self::of_head(ingress, *how, *operation, context.headers(), query.clone())
    }

    pub fn of_head(
        ingress: &Ingress,
        how: Authentication,
        operation: Operation,
        headers: &Headers<'_>,
        query: Query,
    ) -> Self {
        let headers = headers.iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
        Self { ingress: *ingress, how, operation, headers, query }
    }

    /// Circumstances for questions that nothing in the head answers.
    pub fn without_head(context: &RequestContext<'_>) -> Self {
        let RequestContext { ingress, how, operation, .. } = context;
        Self { ingress: **ingress, how: *how, operation: *operation, headers: Vec::new(), query: Query::default() }
    }

    /// The headers, in lower case, with what the body asks for in place of those that it stands for.
    pub fn with_body(&self, asked: &[(&'static str, Vec<u8>)]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut headers = self.headers.clone();
        headers.retain(|(name, _)| !OF_A_BODY.iter().any(|of_body| of_body.as_bytes() == name));
        headers.extend(asked.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.clone())));
        headers
    }

    pub fn with<T>(
        &self,
        access: &AccessControl,
        version: Option<&str>,
        decisions: Option<&DecisionLog>,
        ask: impl FnOnce(&Circumstances<'_>) -> T,
    ) -> T {
        let list: Vec<(&[u8], &[u8])> = self.headers.iter().map(|(name, value)| (&name[..], &value[..])).collect();
        ask(&Circumstances {
            access,
            ingress: &self.ingress,
            how: self.how,
            operation: self.operation,
            headers: &Headers::new(&list),
            query: &self.query,
            source: None,
            version,
            part: None,
            is_body_read: false,
            is_uncertain: Cell::new(false),
            is_postponed: &Cell::new(false),
            steps: &Steps::new(REQUEST_STEPS_MAX),
            decisions,
            supposed: None,
        })
    }
}

impl Context for Circumstances<'_> {
    fn visit(&self, key: &str, each: &mut dyn FnMut(&str)) {
        if self.supposed.is_some_and(|supposed| supposed.visit(key, each)) {
            return;
        }
        match key.split_once(':') {
            Some(("aws", key)) => self.global(key, each),
            Some(("s3", key)) => self.of_s3(key, each),
            _ => {}
        }
    }
}

impl Circumstances<'_> {
    fn now_ms(&self) -> i64 {
        self.ingress.time_ms + self.access.engine.clock_ahead_ms()
    }

    /// Keys that begin with `aws:`.
    fn global(&self, key: &str, each: &mut dyn FnMut(&str)) {
        match key {
            "sourceip" => {
                if let Some(client) = self.ingress.client {
                    each(&client.to_canonical().to_string());
                }
            }
            "securetransport" => each(if self.ingress.is_tls { "true" } else { "false" }),
            "useragent" => self.header("user-agent", each),
            "referer" => self.header("referer", each),
            "currenttime" => each(&String::from_utf8_lossy(&timestamp::iso_time(self.now_ms()))),
            "epochtime" => each(&(self.now_ms() / 1000).to_string()),
            "requestedregion" => each(&self.access.options.region),
            _ => {}
        }
    }

    /// Keys that begin with `s3:`.
    fn of_s3(&self, key: &str, each: &mut dyn FnMut(&str)) {
        match key {
            "prefix" | "delimiter" | "max-keys" => self.of_list(key, each),
            "versionid" => self.version.into_iter().for_each(each),
            "if-match" | "if-none-match" if self.operation.changes() => self.header(key, each),
            "object-lock-mode" | "object-lock-legal-hold" | "object-lock-retain-until-date" => self.of_lock(key, each),
            "object-lock-remaining-retention-days" => self.remaining_days(each),
            "requestobjecttagkeys" => self.tags(&mut |name, _| each(name)),
            "signatureversion" => match self.how {
                Authentication::Anonymous => {}
                Authentication::PresignedVersionTwo => each("AWS"),
                Authentication::Header | Authentication::Presigned => each("AWS4-HMAC-SHA256"),
            },
            "authtype" => match self.how {
                Authentication::Anonymous => {}
                _ if self.operation == Operation::PostObject => each("POST"),
                Authentication::Header => each("REST-HEADER"),
                Authentication::Presigned | Authentication::PresignedVersionTwo => each("REST-QUERY-STRING"),
            },
            "signatureage" => self.signature_age(each),
            "objectcreationoperation" => self.creates(each),
            "locationconstraint" if self.operation == Operation::CreateBucket => match self.is_body_read {
                true => self.header(LOCATION, each),
                false => self.is_uncertain.set(true),
            },
            "x-amz-copy-source" => {
                if let Some(CopySource { bucket, key, .. }) = self.source {
                    each(&format!("{bucket}/{}", String::from_utf8_lossy(key)));
                }
            }
            _ => match key.strip_prefix("requestobjecttag/") {
                Some(wanted) => self.tags(&mut |name, value| {
                    if name.eq_ignore_ascii_case(wanted) {
                        each(value);
                    }
                }),
                // What stands for a header in a body is none.
                None if self.is_body_read && OF_A_BODY.contains(&key) => {}
                None if key.starts_with("x-amz-") => self.header(key, each),
                None => {}
            },
        }
    }

    fn header(&self, name: &str, each: &mut dyn FnMut(&str)) {
        if let Some(value) = self.headers.get(name) {
            each(&String::from_utf8_lossy(value.trim_ascii()));
        }
    }

    fn of_list(&self, name: &str, each: &mut dyn FnMut(&str)) {
        let lists = matches!(
            self.operation,
            Operation::ListObjects
                | Operation::ListObjectsV2
                | Operation::ListObjectVersions
                | Operation::ListMultipartUploads
        );
        if let (true, Some(value)) = (lists, self.query.get(name)) {
            each(&String::from_utf8_lossy(value));
        }
    }

    fn of_lock(&self, name: &str, each: &mut dyn FnMut(&str)) {
        let in_body = matches!(self.operation, Operation::PutObjectRetention | Operation::PutObjectLegalHold);
        if in_body && !self.is_body_read {
            self.is_uncertain.set(true);
        } else {
            let mut header = String::from("x-amz-");
            let _ = header.write_str(name);
            self.header(&header, each);
        }
    }

    /// The days of the retention that is asked for: whole ones from now, as S3 counts them.
    fn remaining_days(&self, each: &mut dyn FnMut(&str)) {
        let mut until = None;
        self.of_lock("object-lock-retain-until-date", &mut |date| until = timestamp::parse(date.as_bytes()));
        if let Some(until) = until {
            const DAY_MS: i64 = 24 * 60 * 60 * 1000;
            let left_ms = i64::try_from(until).unwrap_or(i64::MAX).saturating_sub(self.now_ms());
            each(&(left_ms.max(0) + DAY_MS - 1).div_euclid(DAY_MS).to_string());
        }
    }

    /// Each tag that an object is to get.
    fn tags(&self, each: &mut dyn FnMut(&str, &str)) {
        let in_body = self.operation == Operation::PutObjectTagging && !self.is_body_read;
        if in_body || self.part == Some(Part::Tags) {
            self.is_uncertain.set(true);
            return;
        }
        // The header of a copy that takes the tags of its source says nothing.
        let is_copy = self.operation == Operation::CopyObject;
        if is_copy && TaggingDirective::parse(self.headers) != Ok(TaggingDirective::Replace) {
            return;
        }
        // Tags that cannot be read are refused with the other headers.
        for (name, value) in tags::of_header(self.headers).into_iter().flatten() {
            each(&String::from_utf8_lossy(&name), &String::from_utf8_lossy(&value));
        }
    }

    /// How old a signature in an address is, in milliseconds.
    fn signature_age(&self, each: &mut dyn FnMut(&str)) {
        let date = self.query.get("X-Amz-Date").filter(|_| self.how == Authentication::Presigned);
        let Some(date) = date.and_then(|date| std::str::from_utf8(date).ok()).filter(|date| date.len() == 16) else {
            return;
        };
        let part = |from: usize, to: usize| date.get(from..to).unwrap_or_default();
        let iso = [part(0, 4), "-", part(4, 6), "-", part(6, 11), ":", part(11, 13), ":", part(13, 16)].concat();
        if let Some(signed_ms) = timestamp::parse(iso.as_bytes()).and_then(|ms| i64::try_from(ms).ok()) {
            each(&(self.now_ms() - signed_ms).max(0).to_string());
        }
    }

    /// Whether the request makes an object, and not only a part or the beginning of one.
    fn creates(&self, each: &mut dyn FnMut(&str)) {
        match self.operation {
            Operation::PutObject
            | Operation::CopyObject
            | Operation::PostObject
            | Operation::InstantUpload
            | Operation::MoveObject
            | Operation::RenameObject
            | Operation::CompleteMultipartUpload => each("true"),
            Operation::CreateMultipartUpload | Operation::UploadPart | Operation::UploadPartCopy => each("false"),
            _ => {}
        }
    }
}
