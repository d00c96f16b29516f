//! The front over real sockets: raw bytes in, raw bytes out, before a gateway over a store in a temporary directory.

#[path = "../../../engine/src/tests/options.rs"]
mod engine_options;
mod framing;
mod http2;
mod objects;
#[path = "../../../gateway/src/tests/options.rs"]
mod options;
mod owner;
mod passing;
mod reads;
mod writes;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use crate::{Front, FrontOptions, Limits, Proxies};
use orcas_engine::{Engine, EngineOptions, Environment, IndexPlace, SystemClock};
use orcas_fs::real::{RealFileSystem, SystemRandom};
use orcas_gateway::{Gateway, GatewayOptions, Identities, IdentityTables, now_ms};
use orcas_http::{Headers, RequestHead};
use orcas_sigv4::Signer;

const OWNER: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
/// Against a hang only.
const TIMEOUT: Duration = Duration::from_secs(60);

struct Server {
    front: Front,
    gateway: Arc<Gateway>,
    engine: Option<Engine>,
    listener: TcpListener,
    /// Over which connections to the application come.
    application: UnixStream,
    directory: tempfile::TempDir,
}

struct Answer {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        self.head
            .lines()
            .filter_map(|line| line.split_once(": "))
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value)
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl Server {
    fn start() -> Self {
        Self::with(|_| ())
    }

    fn with(change: impl FnOnce(&mut FrontOptions)) -> Self {
        Self::in_directory(tempfile::tempdir().unwrap(), change)
    }

    fn in_directory(directory: tempfile::TempDir, change: impl FnOnce(&mut FrontOptions)) -> Self {
        let environment = Environment {
            fs: Arc::new(RealFileSystem),
            clock: Arc::new(SystemClock::new()),
            random: Arc::new(SystemRandom),
            index: IndexPlace::File,
        };
        let engine_options = EngineOptions { chunk_size: 1 << 20, ..engine_options::options(directory.path()) };
        let engine = Engine::open(engine_options, environment).unwrap();
        let identities = Identities::new(IdentityTables::of_root(OWNER, &[("ROOT", "secret")])).unwrap();
        let gateway = Gateway::new(engine.handle(), options::options(), identities).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut front_options = front_options();
        change(&mut front_options);
        let is_owner = front_options.is_owner;
        let (way, application) = UnixStream::pair().unwrap();
        let front = Front::start(Arc::clone(&gateway), &[listener.as_fd()], way.as_fd(), front_options, None).unwrap();
        let server = Self { front, gateway, engine: Some(engine), listener, application, directory };
        if is_owner {
            assert_eq!(server.ask("PUT", "/bucket", "", &[], b"").status, 200);
        }
        // The end of that connection arrives some time later.
        while server.front.connections() > 0 {
            std::thread::yield_now();
        }
        server
    }

    fn connect(&self) -> Client {
        let stream = TcpStream::connect(self.listener.local_addr().unwrap()).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.set_nodelay(true).unwrap();
        Client { stream, buffer: Vec::new() }
    }

    /// A signed head for a body of `length` bytes.
    fn sign(&self, method: &str, path: &str, query: &str, more: &[(&str, &str)], length: usize) -> Vec<u8> {
        let signer = Signer::new("ROOT", b"secret", "us-east-1", now_ms() / 1000).unwrap();
        let mut headers = vec![("host".to_owned(), "localhost".to_owned())];
        if length > 0 || method == "PUT" {
            headers.push(("content-length".into(), length.to_string()));
        }
        headers.extend(more.iter().map(|(name, value)| (name.to_string(), value.to_string())));
        let list: Vec<(&[u8], &[u8])> = headers.iter().map(|(n, v)| (n.as_bytes(), v.as_bytes())).collect();
        let head = RequestHead {
            method: method.as_bytes(),
            path: path.as_bytes(),
            query: query.as_bytes(),
            headers: Headers::new(&list),
        };
        let signed = signer.sign_request(&head, "UNSIGNED-PAYLOAD").unwrap();
        let mark = if query.is_empty() { "" } else { "?" };
        let mut text = format!("{method} {path}{mark}{query} HTTP/1.1\r\n");
        let signed = signed.into_iter().map(|(name, value)| (name.to_owned(), value));
        for (name, value) in headers.into_iter().chain(signed) {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str("\r\n");
        text.into_bytes()
    }

    fn request(&self, method: &str, path: &str, query: &str, more: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
        [&self.sign(method, path, query, more, body.len()), body].concat()
    }

    fn ask(&self, method: &str, path: &str, query: &str, more: &[(&str, &str)], body: &[u8]) -> Answer {
        let mut client = self.connect();
        client.send(&self.request(method, path, query, more, body));
        client.read(method)
    }

    /// All that comes until the server closes.
    fn exchange(&self, bytes: &[u8]) -> String {
        let mut client = self.connect();
        client.send(bytes);
        client.rest()
    }
}

fn front_options() -> FrontOptions {
    FrontOptions {
        reserved: vec!["/_orcas/".into()],
        of_node: vec!["/_orcas/health".into()],
        is_owner: true,
        cluster: None,
        threads: 2,
        limits: Limits { head_size_max: 8192, head_sec: 60, body_sec: 60, idle_sec: 60 },
        domains: Vec::new(),
        website_host: None,
        trusted_proxies: Proxies::default(),
        own_names: None,
        body_budget: 64 << 20,
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.front.stop(Duration::ZERO);
        self.gateway.close();
        drop(self.engine.take());
    }
}

struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    fn end(&mut self) {
        self.stream.shutdown(Shutdown::Write).unwrap();
    }

    fn receive(&mut self) -> usize {
        let mut piece = [0; 65536];
        let read = self.stream.read(&mut piece).unwrap_or(0);
        self.buffer.extend_from_slice(&piece[..read]);
        read
    }

    /// The next answer, interim ones included.
    fn read(&mut self, method: &str) -> Answer {
        let end = loop {
            if let Some(end) = self.buffer.windows(4).position(|four| four == b"\r\n\r\n") {
                break end;
            }
            assert!(self.receive() > 0, "the connection ended: {:?}", String::from_utf8_lossy(&self.buffer));
        };
        let head = String::from_utf8(self.buffer.drain(..end + 4).collect()).unwrap();
        let status = head[9..12].parse().unwrap();
        let mut answer = Answer { status, head, body: Vec::new() };
        let length = answer.header("content-length").map_or(0, |length| length.trim().parse().unwrap());
        let length = if method == "HEAD" || matches!(status, 100 | 204 | 304) { 0 } else { length };
        while self.buffer.len() < length {
            assert!(self.receive() > 0, "the connection ended in a body");
        }
        answer.body = self.buffer.drain(..length).collect();
        answer
    }

    fn rest(&mut self) -> String {
        while self.receive() > 0 {}
        String::from_utf8_lossy(&self.buffer).into_owned()
    }
}
