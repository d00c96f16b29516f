//! A proxy that cuts connections after some bytes in either direction.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::ground::Random;

/// The port of a proxy to a port.
pub async fn start(to: u16, seed: u64) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let port = listener.local_addr().expect("it has an address").port();
    let mut random = Random(seed);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            // Every other connection lasts.
            let limits = [(); 2].map(|()| if random.below(2) == 0 { u64::MAX } else { 1 + random.below(8000) });
            tokio::spawn(pass(client, to, limits));
        }
    });
    port
}

async fn pass(client: TcpStream, to: u16, limits: [u64; 2]) {
    let Ok(server) = TcpStream::connect(("127.0.0.1", to)).await else { return };
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    // When one direction ends, both do.
    tokio::select! {
        () = copy(from_client, to_server, limits[0]) => {}
        () = copy(from_server, to_client, limits[1]) => {}
    }
}

async fn copy(mut from: impl AsyncReadExt + Unpin, mut to: impl AsyncWriteExt + Unpin, mut limit: u64) {
    let mut buffer = [0; 4096];
    while limit > 0 {
        let most = limit.min(buffer.len() as u64) as usize;
        match from.read(&mut buffer[..most]).await {
            Ok(length @ 1..) if to.write_all(&buffer[..length]).await.is_ok() => limit -= length as u64,
            _ => return,
        }
    }
}
