//! A bucket in memory that speaks as S3 does, and fails as stores and networks do.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::ground::Random;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Faults {
    None,
    Seeded(u64),
    /// Every request gets this response.
    Always(&'static str),
    /// Requests are read and not answered.
    Silent,
    /// Nothing can be deleted.
    NoDeletes,
    /// The object with the first name is read only after the one with the second name was asked for.
    HeldBack(&'static str, &'static str),
}

pub struct Bucket {
    pub port: u16,
    pub state: Arc<State>,
}

pub struct State {
    objects: Mutex<BTreeMap<String, (Vec<u8>, String)>>,
    versions: Mutex<u64>,
    random: Mutex<Random>,
    /// The paths of all requests.
    pub asked: Mutex<BTreeSet<String>>,
    pub faults: Mutex<Faults>,
}

struct Request {
    method: String,
    path: String,
    if_match: Option<String>,
    if_none_match: bool,
    body: Vec<u8>,
}

type Response = (&'static str, Option<String>, Vec<u8>);

const REFUSED: &str = "412 Precondition Failed";

impl Bucket {
    pub async fn start(faults: Faults) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let port = listener.local_addr().expect("it has an address").port();
        let seed = if let Faults::Seeded(seed) = faults { seed } else { 0 };
        let state = Arc::new(State {
            objects: Mutex::default(),
            versions: Mutex::default(),
            random: Mutex::new(Random(seed)),
            asked: Mutex::default(),
            faults: Mutex::new(faults),
        });
        let served = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&served)));
            }
        });
        Self { port, state }
    }

    pub fn keys(&self) -> Vec<String> {
        self.state.objects.lock().keys().cloned().collect()
    }

    pub fn put(&self, key: &str, body: &[u8]) {
        self.state.objects.lock().insert(key.to_owned(), (body.to_vec(), "\"0\"".to_owned()));
    }
}

impl State {
    fn apply(&self, request: &Request) -> Response {
        let mut objects = self.objects.lock();
        if let Some((_, query)) = request.path.split_once('?') {
            return ("200 OK", None, list(&objects, query));
        }
        let found = objects.get(&request.path);
        match request.method.as_str() {
            "GET" => match found {
                Some((body, tag)) => ("200 OK", Some(tag.clone()), body.clone()),
                None => ("404 Not Found", None, b"<Error><Code>NoSuchKey</Code></Error>".to_vec()),
            },
            "PUT" if request.if_none_match && found.is_some() => (REFUSED, None, Vec::new()),
            "PUT" if request.if_match.is_some() && request.if_match != found.map(|(_, tag)| tag.clone()) => {
                (REFUSED, None, Vec::new())
            }
            "PUT" => {
                let mut versions = self.versions.lock();
                *versions += 1;
                let tag = format!("\"{versions}\"");
                objects.insert(request.path.clone(), (request.body.clone(), tag.clone()));
                ("200 OK", Some(tag), Vec::new())
            }
            "DELETE" => {
                objects.remove(&request.path);
                ("204 No Content", None, Vec::new())
            }
            _ => ("405 Method Not Allowed", None, Vec::new()),
        }
    }

    async fn wait(&self, request: &Request) {
        self.asked.lock().insert(request.path.clone());
        let faults = *self.faults.lock();
        if let Faults::HeldBack(held, until) = faults
            && request.path == held
        {
            while !self.asked.lock().contains(until) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    }

    /// `None`: the connection is closed without a response.
    fn respond(self: &Arc<Self>, request: Request) -> Option<Response> {
        let faults = *self.faults.lock();
        let fault = match faults {
            Faults::None => u64::MAX,
            Faults::Seeded(_) => self.random.lock().below(40),
            Faults::Always(status) => return Some((status, None, Vec::new())),
            Faults::Silent => return None,
            Faults::NoDeletes if request.method == "DELETE" => return None,
            Faults::NoDeletes | Faults::HeldBack(..) => u64::MAX,
        };
        match fault {
            // Lost before it arrives.
            0 => None,
            // Lost after it has arrived.
            1 => {
                self.apply(&request);
                None
            }
            2 => {
                self.apply(&request);
                Some(("500 Internal Server Error", None, Vec::new()))
            }
            // It arrives when the client has given up.
            3 => {
                let (state, pause) = (Arc::clone(self), self.random.lock().below(60));
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_millis(pause)).await;
                    state.apply(&request);
                });
                None
            }
            // Sent again by something on the way.
            4 => {
                self.apply(&request);
                Some(self.apply(&request))
            }
            // A conflict with a call that does not succeed either.
            5 => Some(("409 Conflict", None, Vec::new())),
            6 => Some(("503 Slow Down", None, Vec::new())),
            // Not by the store.
            7 => Some(("404 Not Found", None, b"<html>".to_vec())),
            _ => Some(self.apply(&request)),
        }
    }
}

/// Three keys at a time.
fn list(objects: &BTreeMap<String, (Vec<u8>, String)>, query: &str) -> Vec<u8> {
    let value = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)).unwrap_or_default();
    let [prefix, after] = ["prefix=", "start-after="].map(|name| format!("/logs/{}", value(name).replace("%2F", "/")));
    let keys = objects.keys().filter(|key| key.starts_with(&prefix) && **key > after).take(3);
    let keys: String = keys.map(|key| format!("<Contents><Key>{}</Key></Contents>", &key["/logs/".len()..])).collect();
    format!("<ListBucketResult>{keys}</ListBucketResult>").into_bytes()
}

async fn serve(stream: TcpStream, state: Arc<State>) {
    let mut stream = BufReader::new(stream);
    while let Some(request) = read(&mut stream).await {
        state.wait(&request).await;
        let Some((status, tag, body)) = state.respond(request) else {
            if *state.faults.lock() == Faults::Silent {
                std::future::pending::<()>().await;
            }
            return;
        };
        let tag = tag.map_or(String::new(), |tag| format!("etag: {tag}\r\n"));
        let length =
            if status.starts_with("204") { String::new() } else { format!("content-length: {}\r\n", body.len()) };
        let head = format!("HTTP/1.1 {status}\r\n{tag}{length}\r\n");
        if stream.write_all(&[head.as_bytes(), &body].concat()).await.is_err() {
            return;
        }
    }
}

async fn read(stream: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok()?;
    let mut words = line.split(' ').map(str::to_owned);
    let (method, path) = (words.next()?, words.next()?);
    let mut request = Request { method, path, if_match: None, if_none_match: false, body: Vec::new() };
    loop {
        line.clear();
        stream.read_line(&mut line).await.ok()?;
        // A line without an end was cut off, and nothing of the request counts.
        line.strip_suffix("\r\n")?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        match name {
            "content-length" => request.body = vec![0; value.parse().ok()?],
            "if-match" => request.if_match = Some(value.to_owned()),
            "if-none-match" => request.if_none_match = true,
            _ => {}
        }
    }
    stream.read_exact(&mut request.body).await.ok()?;
    Some(request)
}
