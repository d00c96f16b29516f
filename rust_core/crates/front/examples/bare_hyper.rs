//! The server that the listener is compared with: hyper on one thread, which answers every request of a method with the
//! same bytes. It serves HTTP/1.1, and with the argument `http2` HTTP/2 instead.
//!
//! Standard input says what they are, for each method in turn: `METHOD SIZE LINES`, then as many lines of headers. One line
//! on standard output gives the address. Ends when killed.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io::{BufRead, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;

struct Whole(Option<Bytes>);

impl Body for Whole {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}

type Answers = HashMap<Method, (HeaderMap, Bytes)>;

fn read_answers() -> Answers {
    let mut lines = std::io::stdin().lock().lines().map(|line| line.expect("readable input"));
    let mut answers = HashMap::new();
    while let Some(line) = lines.next() {
        let mut words = line.split(' ');
        let mut word = || words.next().expect("METHOD SIZE LINES");
        let (method, size, count) = (word().parse().expect("a method"), word().parse().expect("a size"), word());
        let mut headers = HeaderMap::new();
        for header in lines.by_ref().take(count.parse().expect("a number of lines")) {
            let (name, value) = header.split_once(": ").expect("a header");
            let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
            headers.append(name, HeaderValue::from_str(value).expect("a value"));
        }
        answers.insert(method, (headers, vec![b'z'; size].into()));
    }
    answers
}

async fn answer(answers: Arc<Answers>, request: Request<Incoming>) -> Result<Response<Whole>, hyper::Error> {
    let (headers, body) = &answers[request.method()];
    let mut sent = request.into_body();
    while let Some(piece) = std::future::poll_fn(|task| Pin::new(&mut sent).poll_frame(task)).await {
        piece?;
    }
    let mut response = Response::new(Whole(Some(body.clone()).filter(|body| !body.is_empty())));
    *response.headers_mut() = headers.clone();
    Ok(response)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let is_http2 = std::env::args().nth(1).is_some_and(|protocol| protocol == "http2");
    let answers = Arc::new(read_answers());
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("bare ready http://{}", listener.local_addr()?);
    std::io::stdout().flush()?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let answers = Arc::clone(&answers);
        let service = service_fn(move |request| answer(Arc::clone(&answers), request));
        let io = TokioIo::new(stream);
        if is_http2 {
            tokio::spawn(http2::Builder::new(TokioExecutor::new()).serve_connection(io, service));
        } else {
            tokio::spawn(http1::Builder::new().serve_connection(io, service));
        }
    }
}
