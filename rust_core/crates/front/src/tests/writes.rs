//! How answers are written to a socket.

use std::io;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{Client, Server, front_options};
use crate::connections::conn::Conn;
use crate::connections::connection;
use crate::connections::io::Socket;
use crate::context::{Context, Shared};
use crate::origin::Origin;

/// A socket that notes the lengths of what each write offers it.
struct Noting(Socket, Arc<Mutex<Vec<Vec<usize>>>>);

impl AsyncRead for Noting {
    fn poll_read(mut self: Pin<&mut Self>, task: &mut Task<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(task, buffer)
    }
}

impl AsyncWrite for Noting {
    fn poll_write(self: Pin<&mut Self>, task: &mut Task<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(task, &[io::IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        task: &mut Task<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.1.lock().push(slices.iter().map(|slice| slice.len()).collect());
        Pin::new(&mut self.0).poll_write_vectored(task, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(task)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(task)
    }
}

#[test]
fn the_head_of_a_large_answer_leaves_with_its_first_piece() {
    let server = Server::start();
    let content: Vec<u8> = (0..10 << 20_u32).map(|number| (number % 251) as u8).collect();
    assert_eq!(server.ask("PUT", "/bucket/large", "", &[], &content).status, 200);
    let request = server.sign("GET", "/bucket/large", "", &[("connection", "close")], 0);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = Client { stream: TcpStream::connect(listener.local_addr().unwrap()).unwrap(), buffer: Vec::new() };
    client.send(&request);
    let writes = Arc::<Mutex<Vec<Vec<usize>>>>::default();
    let answer = std::thread::scope(|scope| {
        let reading = scope.spawn(|| client.read("GET"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (stream, client) = listener.accept().unwrap();
            stream.set_nonblocking(true).unwrap();
            let stream = Arc::new(tokio::net::TcpStream::from_std(stream).unwrap());
            let (way, _application) = UnixStream::pair().unwrap();
            let context = Context::new(&Shared::new(Arc::clone(&server.gateway), way.into(), front_options()), 0);
            tokio::spawn(Arc::clone(&context.waits).distribute());
            let conn = Conn::new(Arc::clone(&stream));
            let noting = Noting(Socket(stream), Arc::clone(&writes));
            connection::serve(context, conn, noting, Origin { client, is_tls: false }).await;
        });
        reading.join().unwrap()
    });
    assert!(answer.status == 200 && answer.body == content);
    let first = &writes.lock()[0];
    assert!(first.len() == 2 && first[0] == answer.head.len() && first[1] >= 64 << 10, "{first:?}");
}
