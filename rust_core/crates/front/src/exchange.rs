//! A request and its answer: the head is checked and admitted, the body arrives as the request plans to, the operation
//! runs, and its answer is sent.
//!
//! No byte of a body is received before the head is verified; so `Expect: 100-continue` is answered then. The verified
//! request says how its body is received, so operations need no code here.

use std::convert::Infallible;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use http::{Response, StatusCode};
use http_body::Body as _;
use hyper::body::Incoming;

use crate::answer::{self, AnswerBody, Content, Pieces};
use crate::connections::conn::{Conn, Order};
use crate::connections::refusals::{self, Refusal};
use crate::context::{Context, ELSEWHERE, HELD, LEASED};
use crate::elsewhere::owner::{Passed, Place};
use crate::head::Head;
use crate::life::{Admitted, Life};
use crate::origin::Origin;
use crate::receiving::{Gone, Receiving};
use crate::route;
use crate::waits::Slot;
use orcas_bodies::stream::{Flow, PIECE_MAX};
use orcas_gateway::{
    Accepted, Begun, BodyPlan, Completion, FormAdmission, FormHead, Ingress, Postponed, Reply, Request, Responder,
    Response as Answer, ResponseBody, ResponseSummary, now_ms,
};

/// Answers one request of a connection with this origin.
pub async fn answer(
    context: Arc<Context>,
    conn: Arc<Conn>,
    origin: Origin,
    request: http::Request<Incoming>,
) -> Result<Response<AnswerBody>, Infallible> {
    let mut exchange = Exchange { context, conn, origin };
    let response = exchange.run(request).await;
    exchange.conn.respond();
    Ok(response)
}

pub struct Exchange {
    pub context: Arc<Context>,
    pub conn: Arc<Conn>,
    pub origin: Origin,
}

impl Exchange {
    async fn run(&mut self, request: http::Request<Incoming>) -> Response<AnswerBody> {
        let (parts, body) = request.into_parts();
        let lines = self.conn.begin(parts.method == http::Method::HEAD);
        if !self.conn.is_stream() && !lines.is_whole && !lines.is_malformed {
            // It has come behind a chunked body, and its head is not known.
            return self.ended().await;
        }
        let size_max = self.context.shared.options.limits.head_size_max;
        let head = match Head::check(parts, lines, body.is_end_stream(), size_max) {
            Ok(head) => Arc::new(head),
            Err((_, refusal)) => return self.refuse(refusal),
        };
        let mut body = Receiving::new(body, Arc::clone(&self.conn));
        self.origin = self.origin.said_by(&self.context.shared.options.trusted_proxies, &head.parts().headers);
        let shared = &self.context.shared;
        let detours = shared.detours();
        // Where the owner of the log is, if this is a read of a node that is not the owner.
        let mut elsewhere = None;
        if detours & (ELSEWHERE | LEASED) != 0 && !route::is_of_node(shared, &head) {
            match self.detour(&head, body, detours).await {
                ControlFlow::Continue((same, place)) => (body, elsewhere) = (same, place),
                ControlFlow::Break(answer) => return answer,
            }
        }
        if route::is_for_application(shared, &head, detours & HELD != 0) {
            if head.has_body && route::is_of_application(shared, &head) {
                // The application has yet to find out who sends it, and leaves it to the listener to count the body.
                self.conn.set_unverified(true);
                body.count(shared.unverified.body(&self.conn, Some(self.origin.ip())));
            }
            return self.pass(&head, body).await;
        }
        let (begun, began) = {
            let (pairs, ingress) = (head.pairs(), self.ingress());
            (shared.gateway.begin(&head.as_request(&pairs), &ingress, &self.context.responder), ingress.began)
        };
        let life = |admitted| Life::new(shared, &self.conn, (&head, self.origin), admitted);
        let reads = elsewhere.is_some();
        let (life, answered) = match begun {
            Begun::Accepted(accepted) => {
                let life = life(Admitted::of(&accepted, began));
                let answered = self.go_on(accepted, &head, &mut body, reads).await;
                (life, answered)
            }
            Begun::Form(form) => {
                let mut life = life(Admitted::Form(Arc::clone(form.tally())));
                let answered = self.submit(form, &mut body, &mut life).await;
                (life, answered)
            }
            Begun::Postponed(postponed) => {
                let mut life = life(Admitted::Postponed(Arc::clone(&postponed)));
                let accepted = self.accepted(&postponed).await;
                life.admitted = Admitted::of(&accepted, began);
                let answered = self.go_on(accepted, &head, &mut body, reads).await;
                (life, answered)
            }
        };
        match answered {
            Ok(answer) if !(answer.lacks_object() && self.is_pulled(&life) || reads && answer.status >= 500) => {
                let _ = reads.then(|| shared.passed.add(Passed::Read));
                self.respond(answer, life, &head, &body).await
            }
            Ok(_) | Err(Stop::Passed) => {
                life.pass_on();
                self.pass_elsewhere(elsewhere, &head, body).await
            }
            Err(Stop::Gone) => {
                drop(life);
                self.ended().await
            }
        }
    }

    /// Lets the node that owns the log answer, or refuses the request, unless this node may carry it out, or read for it:
    /// then returns where the owner is.
    async fn detour(
        &self,
        head: &Head,
        body: Receiving,
        detours: u8,
    ) -> ControlFlow<Response<AnswerBody>, (Receiving, Option<Place>)> {
        let shared = &self.context.shared;
        let place = if detours & ELSEWHERE == 0 { Place::Here } else { shared.ownership().place() };
        if !matches!(place, Place::Here) {
            return if self.may_read(&place, head, detours & HELD != 0).await {
                ControlFlow::Continue((body, Some(place)))
            } else {
                ControlFlow::Break(self.pass_elsewhere(Some(place), head, body).await)
            };
        }
        if let Some(answer) = self.tell_index(head) {
            return ControlFlow::Break(answer);
        }
        if shared.is_overdue(detours) {
            return ControlFlow::Break(self.refuse_to_pass(head, &refusals::NO_OWNER));
        }
        ControlFlow::Continue((body, None))
    }

    fn ingress(&self) -> Ingress {
        Ingress {
            client: Some(self.origin.ip()),
            is_tls: self.origin.is_tls,
            mount_length: 0,
            began: Instant::now(),
            time_ms: now_ms(),
        }
    }

    /// The result of a request that a worker accepts.
    async fn accepted(&self, postponed: &Arc<Postponed>) -> Accepted {
        let slot = self.slot();
        postponed.begin(slot.number());
        slot.wait().await;
        postponed.take()
    }

    /// Executes a request that was accepted, unless it is for the application, or for the owner of the log where this node
    /// only `reads`.
    async fn go_on(&self, accepted: Accepted, head: &Head, body: &mut Receiving, reads: bool) -> Result<Answer, Stop> {
        match accepted {
            Ok(request) if reads && !self.is_read_here(&*request, head) => Err(Stop::Passed),
            Err(_) if reads && self.is_logged(head) => Err(Stop::Passed),
            // The application writes down first who changes who may do what.
            Ok(request) if request.audited().is_some() => Err(Stop::Passed),
            Ok(request) => self.execute(&request, body).await,
            Err(_) if route::is_for_another_service(head) => Err(Stop::Passed),
            Err(refusal) => Ok(refusal.answer),
        }
    }

    /// Receives the body of a request as it plans to, and executes it.
    async fn execute(&self, request: &Arc<dyn Request>, body: &mut Receiving) -> Result<Answer, Stop> {
        match request.body() {
            BodyPlan::None if request.in_pieces() => self.run_in_pieces(request).await,
            BodyPlan::None => self.start(request, Bytes::new()).await,
            plan @ BodyPlan::Whole(_) => {
                let content = self.collect(request, body, plan.whole_max()).await?;
                // Memory of the budget is taken only now, so an incomplete body keeps none from others.
                let slot = self.slot();
                if !Arc::clone(request).admit(slot.number()) {
                    slot.wait().await;
                }
                self.start(request, content).await
            }
            BodyPlan::Stream(_) => self.store(request, body).await,
        }
    }

    async fn start(&self, request: &Arc<dyn Request>, content: Bytes) -> Result<Answer, Stop> {
        let slot = self.slot();
        match Arc::clone(request).start(content, slot.number()) {
            Some(answer) => Ok(answer),
            None => self.completed(slot).await,
        }
    }

    async fn completed(&self, slot: Slot) -> Result<Answer, Stop> {
        match slot.wait().await {
            Completion::Committed(request, result) => Ok(request.committed(result)),
            Completion::Answered(answer) => Ok(answer),
            // The gateway does not send them here.
            Completion::Piece(_) | Completion::Resume => Err(Stop::Gone),
        }
    }

    /// Executes a request that may take long, and gives it up when nobody waits for its answer.
    async fn run_in_pieces(&self, request: &Arc<dyn Request>) -> Result<Answer, Stop> {
        let abandoned = Abandoned(request);
        tokio::select! {
            answer = self.start(request, Bytes::new()) => {
                std::mem::forget(abandoned);
                answer
            }
            () = self.conn.gone() => Err(Stop::Gone),
        }
    }

    /// Receives a small body. Bytes beyond its limit are not read. It keeps no memory of the connection.
    async fn collect(&self, request: &Arc<dyn Request>, body: &mut Receiving, max: u64) -> Result<Bytes, Stop> {
        let Some(first) = body.next().await.transpose()? else {
            request.body_read();
            return Ok(Bytes::new());
        };
        if body.is_complete() {
            request.body_read();
            return Ok(self.context.shared.gateway.services.bodies.buffers.copy(&first));
        }
        let counted = self.context.shared.incomplete.body(&self.conn, Some(self.origin.ip()));
        counted.grow(first.len());
        let mut content = BytesMut::from(&first[..]);
        while content.len() as u64 <= max {
            match body.next().await.transpose()? {
                None => {
                    request.body_read();
                    break;
                }
                Some(piece) => {
                    counted.grow(piece.len());
                    content.extend_from_slice(&piece);
                    if body.is_complete() {
                        request.body_read();
                        break;
                    }
                }
            }
        }
        Ok(content.freeze())
    }

    /// Receives a large body piece by piece, each of which waits for memory when it has arrived.
    async fn store(&self, request: &Arc<dyn Request>, body: &mut Receiving) -> Result<Answer, Stop> {
        let stream = request.open_body(&self.origin.ip().to_string()).ok_or(Stop::Gone)?;
        'body: while let Some(piece) = body.next().await.transpose()? {
            for piece in piece.chunks(PIECE_MAX as usize) {
                loop {
                    let slot = self.slot();
                    let (waits, number) = (Arc::clone(&self.context.waits), slot.number());
                    match stream.admit(Box::new(move || waits.complete(number, Completion::Resume))) {
                        Flow::More => break,
                        Flow::Wait => drop(slot.wait().await),
                        Flow::Stop => break 'body,
                    }
                }
                request.tally().add(piece.len());
                stream.push(piece);
            }
            if body.is_complete() {
                break;
            }
        }
        if body.is_complete() {
            request.body_read();
        }
        let slot = self.slot();
        request.tally().end();
        stream.finish(Reply::new(Arc::clone(request) as Arc<_>, slot.number()));
        self.completed(slot).await
    }

    /// Receives a form, and executes the request that its fields make with the file as the body.
    async fn submit(&self, mut form: Box<FormHead>, body: &mut Receiving, life: &mut Life) -> Result<Answer, Stop> {
        let gateway = &self.context.shared.gateway;
        self.conn.set_unverified(true);
        let counted = self.context.shared.unverified.body(&self.conn, Some(self.origin.ip()));
        // What has come of it, for the application if that has to write down a change of rights first.
        let mut seen = BytesMut::new();
        loop {
            let piece = body.next().await.transpose()?.unwrap_or_default();
            seen.extend_from_slice(&piece);
            let is_last = piece.is_empty() || body.is_complete();
            match form.push(gateway, &piece, is_last) {
                Err(same) => {
                    form = same;
                    // It is in `seen`, and in the fields of the form.
                    counted.grow(2 * piece.len());
                }
                Ok(FormAdmission { request: Ok(postponed), taken }) => {
                    let request = match self.accepted(&postponed).await {
                        Ok(request) => request,
                        Err(refusal) => {
                            life.judged = refusal.judged;
                            return Ok(refusal.answer);
                        }
                    };
                    drop(counted);
                    self.conn.set_unverified(false);
                    life.admitted = Admitted::Request(Arc::clone(&request));
                    if request.audited().is_some() {
                        body.give_back(seen.freeze());
                        return Err(Stop::Passed);
                    }
                    body.give_back(piece.slice(taken..));
                    return self.execute(&request, body).await;
                }
                Ok(FormAdmission { request: Err(answer), .. }) => return Ok(*answer),
            }
        }
    }

    /// Whether the application may fetch what a request lacks.
    fn is_pulled(&self, life: &Life) -> bool {
        let Admitted::Request(request) = &life.admitted else { return false };
        request.pulled().is_some_and(|(bucket, _)| self.context.shared.has_origin(bucket.as_bytes()))
    }

    async fn respond(
        &self,
        mut answer: Answer,
        mut life: Box<Life>,
        head: &Head,
        body: &Receiving,
    ) -> Response<AnswerBody> {
        if let Some(note) = answer.error.take() {
            life.report(answer.status, &note);
        }
        let unread = head.has_body && !body.is_complete();
        let continues = !head.expects_continue || head.has_body || self.conn.send_continue();
        let closes = answer.closes || unread || head.is_last() || !continues;
        if unread {
            self.conn.leave_unread();
        }
        let summary = match &life.admitted {
            Admitted::Refused(_) | Admitted::Postponed(_) => None,
            Admitted::Request(_) | Admitted::Form(_) => {
                Some(ResponseSummary { judged: life.judged.take(), ..ResponseSummary::of(&answer) })
            }
        };
        life.answer(summary);
        let content = match answer.body {
            ResponseBody::Empty => Content::Empty,
            ResponseBody::Bytes(bytes) if bytes.is_empty() => Content::Empty,
            ResponseBody::Bytes(bytes) => Content::Whole(bytes.into()),
            ResponseBody::Pieces(download) => {
                let mut pieces = Pieces::new(download, &self.context.waits, life.delivery().cloned());
                if pieces.begin().await.is_err() {
                    self.conn.end(Order::Refuse(&refusals::FAILED));
                    return self.ended().await;
                }
                Content::Pieces(pieces)
            }
        };
        let mut response = Response::new(AnswerBody::new(content, Some(life), &self.conn));
        *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        *response.headers_mut() = answer::headers_of(answer.headers, self.context.date());
        if closes {
            answer::close(response.headers_mut(), &self.conn);
        }
        response
    }

    /// Ends the connection, and this with it: nobody waits for an answer.
    pub async fn ended(&self) -> Response<AnswerBody> {
        if !self.conn.is_ending() {
            self.conn.end(Order::Abort);
        }
        std::future::pending().await
    }

    pub fn refuse(&self, refusal: &'static Refusal) -> Response<AnswerBody> {
        self.context.shared.count(refusal.code);
        self.conn.leave_unread();
        refused(&self.context, &self.conn, &self.origin, refusal)
    }

    fn slot(&self) -> Slot {
        self.context.waits.slot()
    }
}

/// Logs a refusal, and answers with it.
pub fn refused(context: &Context, conn: &Arc<Conn>, origin: &Origin, refusal: &Refusal) -> Response<AnswerBody> {
    let request_id = context.shared.gateway.services.ids.next();
    let request_id = std::str::from_utf8(&request_id).unwrap_or_default();
    report(refusal, request_id, origin);
    answer::refused(refusal, request_id, context.date(), conn)
}

/// Logs what was refused before it was a request.
pub fn report(refusal: &Refusal, request_id: &str, origin: &Origin) {
    let Refusal { status, code, message } = refusal;
    tracing::info!(status, code, client = %origin, request_id, cause = message, "Request refused");
}

/// Why a request gets no answer here.
enum Stop {
    /// The client has gone.
    Gone,
    /// Whoever it is passed on to answers it.
    Passed,
}

impl From<Gone> for Stop {
    fn from(_: Gone) -> Self {
        Self::Gone
    }
}

/// Gives a request up when it is dropped.
struct Abandoned<'a>(&'a Arc<dyn Request>);

impl Drop for Abandoned<'_> {
    fn drop(&mut self) {
        self.0.abandon();
    }
}
