//! Requests that may take many seconds, such as a copy that has to be hashed: they run in pieces, so that others come in
//! between, and end early if nobody waits for the answer any more.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

use crate::request::{Operation, Progress, TypedRequest};
use orcas_bodies::problem::Problem;
use orcas_responses::reply::Reply;
use orcas_responses::response::Response;
use orcas_s3::ErrorCode;

impl<O: Operation> TypedRequest<O> {
    /// Runs `work`, which pauses after each piece, and answers the request. Only the first piece takes a worker from others;
    /// those that follow run at a low priority, behind the ends of bodies. A piece is the last one if the request was
    /// abandoned or the server is closed.
    pub fn work_in_pieces<W>(self: &Arc<Self>, work: impl FnOnce(Arc<Self>) -> W) -> Progress
    where
        W: Future<Output = Result<Response, Problem>> + Send + 'static,
    {
        let reply = Reply::of(Arc::clone(self));
        let work = Box::pin(work(Arc::clone(self)));
        let since = self.now_if_timed();
        self.services.pool.spawn(move || {
            if let (Some(stopwatch), Some(since)) = (&reply.request().tally.stopwatch, since) {
                stopwatch.taken_up(since);
            }
            Self::run_piece(reply, work);
        });
        Progress::Later
    }

    fn run_piece<W>(reply: Reply<Self>, mut work: Pin<Box<W>>)
    where
        W: Future<Output = Result<Response, Problem>> + Send + 'static,
    {
        if reply.request().abandoned.load(Ordering::Relaxed) {
            return reply.result(Err(ErrorCode::ServiceUnavailable.into()));
        }
        match work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => reply.result(result),
            Poll::Pending => {
                let services = Arc::clone(&reply.request().services);
                services.bodies.intake_pool.spawn_piece(move || Self::run_piece(reply, work));
            }
        }
    }
}
