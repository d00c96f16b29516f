//! Requests that are answered elsewhere: by the application, or by the owner of the log if that is another node. Both bodies
//! are streamed, and a body is asked for when whoever answers wants it.
//!
//! An answer that breaks off ends the connection of its client. Must not know how others are reached.

use std::sync::Arc;

use http::header::{CONNECTION, DATE, RETRY_AFTER};
use http::{HeaderValue, Method, Response};
use http_body::Body as _;
use hyper::body::Incoming;

use crate::answer::{self, AnswerBody, Content};
use crate::connections::refusals::{self, Refusal};
use crate::elsewhere::application::{DROPPED, ENDLESS};
use crate::elsewhere::owner::{HOP, Passed, Place, Remote};
use crate::elsewhere::pool::Unanswered;
use crate::exchange::{Exchange, refused};
use crate::head::Head;
use crate::receiving::{Receiving, Unwanted, Wish};
use crate::route;

/// Seconds after which a client may ask again for what no node takes.
const RETRY_AFTER_SEC: HeaderValue = HeaderValue::from_static("1");

impl Exchange {
    /// Passes the request on to the application, and its answer back.
    pub async fn pass(&self, head: &Head, mut body: Receiving) -> Response<AnswerBody> {
        let (wish, unwanted) = wait(head, &mut body);
        let certificate = self.conn.certificate();
        let asked = self.context.application.ask(head.parts(), body, wish, &self.origin, certificate).await;
        match asked {
            Ok(answer) if answer.headers().contains_key(DROPPED) => self.ended().await,
            Ok(answer) => {
                let closes = is_last(&answer);
                self.hand_on(answer, head, unwanted, closes)
            }
            Err(_) if self.conn.is_ending() => self.ended().await,
            Err(error) => {
                tracing::error!(%error, path = head.path(), "The application did not answer");
                self.refuse(&refusals::FAILED)
            }
        }
    }

    /// Lets the owner of the log answer, or the application if the owner is this node. Refuses the request if there is none.
    pub async fn pass_elsewhere(&self, owner: Option<Place>, head: &Head, body: Receiving) -> Response<AnswerBody> {
        match owner {
            Some(Place::At(remote)) => self.pass_to_owner(remote, head, body).await,
            Some(Place::Nobody) => self.refuse_to_pass(head, &refusals::NO_OWNER),
            Some(Place::Here) | None => self.pass(head, body).await,
        }
    }

    /// Passes the request on to the owner of the log, and its answer back.
    pub async fn pass_to_owner(&self, remote: Arc<Remote>, head: &Head, mut body: Receiving) -> Response<AnswerBody> {
        let passed = &self.context.shared.passed;
        if head.parts().headers.contains_key(HOP) {
            return self.refuse_to_pass(head, &refusals::NO_LONGER_OWNER);
        }
        let is_repeatable = !head.has_body
            && matches!(*head.method(), Method::GET | Method::HEAD)
            && !route::is_query(head, head.query().as_bytes());
        let (wish, unwanted) = wait(head, &mut body);
        let mut asked = self.ask(&remote, head, body, wish).await;
        if let Err(Unanswered { cause, is_unsent: false }) = &asked
            && is_repeatable
            && let Place::At(remote) = self.context.shared.ownership().place()
        {
            tracing::debug!(%cause, path = head.path(), "A request is passed on to the owner once more");
            passed.add(Passed::Repeated);
            asked = self.ask(&remote, head, Receiving::nothing(Arc::clone(&self.conn)), None).await;
        }
        match asked {
            Ok(answer) => {
                passed.add(Passed::Answered);
                self.hand_on(answer, head, unwanted, false)
            }
            Err(_) if self.conn.is_ending() => self.ended().await,
            Err(Unanswered { cause, is_unsent }) => {
                tracing::warn!(%cause, sent = !is_unsent, "The owner did not answer");
                if is_unsent || is_repeatable {
                    return self.refuse_to_pass(head, &refusals::OWNER_UNREACHED);
                }
                passed.add(Passed::Lost);
                self.unanswered(head, &refusals::OUTCOME_UNKNOWN)
            }
        }
    }

    /// Refuses a request that nobody has carried out.
    pub fn refuse_to_pass(&self, head: &Head, refusal: &'static Refusal) -> Response<AnswerBody> {
        self.context.shared.passed.add(Passed::Refused);
        let mut response = self.unanswered(head, refusal);
        response.headers_mut().insert(RETRY_AFTER, RETRY_AFTER_SEC);
        response
    }

    /// Waits for the answer of the owner, as long as it is the owner.
    async fn ask(
        &self,
        remote: &Arc<Remote>,
        head: &Head,
        body: Receiving,
        wish: Option<Arc<Wish>>,
    ) -> Result<Response<Incoming>, Unanswered> {
        tokio::select! {
            asked = remote.ask(self.context.thread, head.parts(), body, wish, &self.origin) => asked,
            () = self.context.shared.ownership().is_replaced(remote) => {
                Err(Unanswered::lost("it is not the owner any more"))
            }
        }
    }

    /// The connection stays, unless the client still sends a body or waits to be asked for one.
    fn unanswered(&self, head: &Head, refusal: &'static Refusal) -> Response<AnswerBody> {
        let unread = head.has_body && !self.conn.has_whole_body();
        if unread {
            self.conn.leave_unread();
        }
        let mut response = refused(&self.context, &self.conn, &self.origin, refusal);
        if !unread && !head.is_last() && !head.expects_continue {
            response.headers_mut().remove(CONNECTION);
        }
        response
    }

    /// Hands an answer on. `closes`: the connection ends after it in any case.
    fn hand_on(
        &self,
        answer: Response<Incoming>,
        head: &Head,
        unwanted: Unwanted,
        closes: bool,
    ) -> Response<AnswerBody> {
        let (mut parts, body) = answer.into_parts();
        parts.headers.entry(DATE).or_insert_with(|| self.context.date());
        if parts.headers.contains_key(ENDLESS) {
            self.conn.never_ends();
            // Another node has to know, too.
            if !head.parts().headers.contains_key(HOP) {
                parts.headers.remove(ENDLESS);
            }
        }
        let unread = head.has_body && !self.conn.has_whole_body();
        let continues = !head.expects_continue || head.has_body || self.conn.send_continue();
        if (closes || unread) && !self.conn.is_stream() {
            self.conn.leave_unread();
        }
        parts.headers.remove(CONNECTION);
        if closes || unread || head.is_last() || !continues {
            answer::close(&mut parts.headers, &self.conn);
        }
        // Without an end of its own it ends with its client.
        let gone = body.size_hint().exact().is_none().then(|| {
            let conn = Arc::clone(&self.conn);
            Box::pin(async move { conn.gone().await }) as _
        });
        let body = AnswerBody::new(Content::Passed { body, gone, _unwanted: unwanted }, None, &self.conn);
        Response::from_parts(parts, body)
    }
}

/// Lets a body wait for whoever answers, if its client waits to be asked for it. It is received until the answer is sent.
fn wait(head: &Head, body: &mut Receiving) -> (Option<Arc<Wish>>, Unwanted) {
    let wish = if head.expects_continue && head.has_body { body.wait() } else { None };
    let unwanted = body.until_answered(wish.clone());
    (wish, unwanted)
}

/// Whether whoever has answered ends the connection.
fn is_last(answer: &Response<Incoming>) -> bool {
    answer.headers().get(CONNECTION).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"close"))
}
