//! Requests and responses as Python objects: heads and forms as they come, bodies on their way in and out, the loop that
//! waits for them, and what is logged of those that are done.

mod answer;
mod describe;
pub(crate) mod done;
mod event_loop;
mod form;
pub(crate) mod head;
mod incomplete;
pub(crate) mod piece;
mod postponed;
mod request;
mod request_logs;

pub(crate) use answer::{Download, ErrorNote, Response, piece_object};
pub(crate) use describe::{Description, Diagnosis, Recovery};
pub(crate) use event_loop::EventLoop;
pub(crate) use form::Form;
pub(crate) use incomplete::{IncompleteBodies, IncompleteBody};
pub(crate) use postponed::{Postponed, accepted_object};
pub(crate) use request::{
    BodySink, FLOW_MORE, FLOW_STOP, FLOW_WAIT, PLAN_IN_PIECES, PLAN_RUN, PLAN_STREAM, Request, names_bucket,
};
pub(crate) use request_logs::RequestLogs;
