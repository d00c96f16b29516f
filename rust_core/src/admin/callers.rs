//! Who calls the admin API, and what it asks about access.

use std::collections::HashMap;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::{refusal, refusal_of};
use orcas_gateway::{AccessQuestion, AdminCaller, Explained, Gateway, Ingress, Needs, NotAdmitted, now_ms};
use orcas_http::RequestHead;
use orcas_s3::S3Error;
use orcas_sigv4::{Authentication, PayloadMode};

/// Who has signed a request to the admin API.
#[pyclass(frozen, name = "AdminCaller", module = "orcas._core")]
pub struct PyAdminCaller {
    gateway: Arc<Gateway>,
    inner: AdminCaller,
    digest: [u8; 32],
}

/// An access decision. `statement`: policy, number and name.
#[derive(IntoPyObject)]
pub struct AccessAnswer {
    allowed: bool,
    explicit: bool,
    why: String,
    statement: Option<(String, usize, Option<String>)>,
    missing: Vec<String>,
}

impl From<Explained> for AccessAnswer {
    fn from(Explained { is_allowed, is_explicit, why, statement, missing }: Explained) -> Self {
        Self { allowed: is_allowed, explicit: is_explicit, why, statement, missing }
    }
}

/// An action, a resource, and keys of conditions.
type Own = (String, String, HashMap<String, Vec<String>>);

/// Whoever may do something, by name, and the name after which the next answer begins.
type Found = (Vec<(String, AccessAnswer)>, Option<String>);

/// Accepts only requests that are signed in their headers, over the hash of the body. A presigned URL is not enough, because
/// it can be passed on, nor is an unsigned body. `once`: the very same request is refused from then on.
pub fn judge(
    gateway: &Arc<Gateway>,
    head: &RequestHead<'_>,
    ingress: &Ingress,
    needs: Needs<'_>,
    once: bool,
) -> PyResult<PyAdminCaller> {
    let denied = |message: &str| Err(refusal(403, "AccessDenied", message.to_owned()));
    let authenticated = gateway.access().authenticate_admin(head, ingress, needs);
    let (authenticated, inner) = authenticated.map_err(|problem| refusal_of(problem.error))?;
    let digest = match (authenticated.how, authenticated.payload) {
        (Authentication::Header, PayloadMode::Hash(hash)) => hash,
        (Authentication::Header, _) => return denied("The signature must cover the SHA-256 of the body."),
        (Authentication::Presigned | Authentication::PresignedVersionTwo | Authentication::Anonymous, _) => {
            return denied("The request must be signed in its Authorization header.");
        }
    };
    // Dates that may be any do not tell an old request from a new one.
    if let Some(stamp) = authenticated.stamp.filter(|_| once && !gateway.access().options.any_date) {
        match gateway.access().signers.replays.admit(stamp, now_ms()) {
            Ok(()) => {}
            Err(refused @ NotAdmitted::Full) => return Err(refusal(503, "SlowDown", refused.to_string())),
            Err(refused) => return Err(refusal(409, "RequestReplayed", refused.to_string())),
        }
    }
    Ok(PyAdminCaller { gateway: Arc::clone(gateway), inner, digest })
}

fn asked(
    action: String,
    resource: String,
    context: HashMap<String, Vec<String>>,
    bucket_policy: Option<String>,
) -> AccessQuestion {
    AccessQuestion { action, resource, context, bucket_policy }
}

#[pymethods]
impl PyAdminCaller {
    /// The SHA-256 that the body must have.
    #[getter]
    fn digest<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.digest)
    }

    #[getter]
    fn is_root(&self) -> bool {
        self.inner.requester.is_root
    }

    #[getter]
    fn arn(&self) -> &str {
        &self.inner.requester.identity.principal.arn
    }

    #[getter]
    fn access_key(&self) -> &str {
        &self.inner.requester.access_key
    }

    /// Whether the caller may do each of these. Blocks.
    fn may(&self, py: Python<'_>, questions: Vec<Own>) -> PyResult<Vec<bool>> {
        let each = || -> Result<Vec<bool>, S3Error> {
            let asking = self.inner.asks(self.gateway.access());
            let all = questions.into_iter().map(|(action, resource, context)| asked(action, resource, context, None));
            all.map(|asked| asking.may(&asked)).collect()
        };
        py.detach(each).map_err(refusal_of)
    }

    /// What is decided on somebody else. Blocks.
    fn explain(
        &self,
        py: Python<'_>,
        who: &str,
        action: String,
        resource: String,
        context: HashMap<String, Vec<String>>,
        bucket_policy: Option<String>,
    ) -> PyResult<AccessAnswer> {
        let asked = asked(action, resource, context, bucket_policy);
        py.detach(|| self.inner.asks(self.gateway.access()).explain(who, &asked))
            .map(AccessAnswer::from)
            .map_err(refusal_of)
    }

    /// Who may do something. Blocks.
    fn who_may(
        &self,
        py: Python<'_>,
        action: String,
        resource: String,
        context: HashMap<String, Vec<String>>,
        after: &str,
        limit: usize,
    ) -> PyResult<Found> {
        let asked = asked(action, resource, context, None);
        let found = py.detach(|| self.inner.asks(self.gateway.access()).who_may(&asked, after, limit));
        let (found, next) = found.map_err(refusal_of)?;
        Ok((found.into_iter().map(|(name, answer)| (name, answer.into())).collect(), next))
    }
}
