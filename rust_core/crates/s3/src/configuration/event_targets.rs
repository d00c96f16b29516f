//! The targets of events that the server has, and the ARNs by which notifications name them.

/// A target of the server. `name`: what notifications call it, which is a whole ARN for a target at AWS. The ARNs of
/// MinIO end in its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventTarget {
    pub name: String,
    pub kind: String,
}

/// The targets to which the server can send events.
#[derive(Clone, Copy, Debug)]
pub struct Targets<'a> {
    pub region: &'a str,
    /// The known targets; `None`: the client wants destinations not to be checked.
    pub known: Option<&'a [EventTarget]>,
}

/// The stand-in for the ARN of the event bus, which notifications name without one.
pub const EVENT_BUS: &str = "arn:aws:events";

/// The kinds that an ARN can name.
const KINDS: [&str; 3] = ["webhook", "kafka", "nats"];

/// The parts of the ARN of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Named<'a> {
    pub region: &'a str,
    pub name: &'a str,
    arn: &'a str,
    kind: Option<&'a str>,
}

impl<'a> Named<'a> {
    /// `service`: `sns`, `sqs` or `lambda`.
    pub fn parse(arn: &'a str, service: &str) -> Option<Self> {
        // The name of a function may end in a version or an alias, with a colon before it.
        let parts: Vec<&str> = arn.splitn(7, ':').collect();
        let is_account = |text: &str| text.is_empty() || text.len() == 12 && text.bytes().all(|b| b.is_ascii_digit());
        let named = match (parts.as_slice(), service) {
            (["arn", "aws", "lambda", region, account, "function", name], "lambda") if is_account(account) => {
                Self { region, name, arn, kind: None }
            }
            (["arn", "aws", of, region, account, name], "sns" | "sqs") if *of == service && is_account(account) => {
                Self { region, name, arn, kind: None }
            }
            // MinIO has queues only.
            (["arn", "minio", "sqs", region, name, kind], "sqs") if KINDS.contains(kind) => {
                Self { region, name, arn, kind: Some(kind) }
            }
            _ => return None,
        };
        Some(named).filter(|named| !named.name.is_empty())
    }

    pub fn is(&self, target: &EventTarget) -> bool {
        self.arn == target.name || self.name == target.name && self.kind.is_none_or(|kind| kind == target.kind)
    }
}
