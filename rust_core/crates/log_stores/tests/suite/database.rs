//! A PostgreSQL of its own in a temporary directory, where there is one installed.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use tokio_postgres::{Client, NoTls};

use crate::ground::Ground;

/// `nobody`: PostgreSQL does not run as root.
const USER: u32 = 65534;

pub struct Database {
    pub port: u16,
    server: Child,
    /// Its socket is in it.
    directory: TempDir,
}

impl Database {
    pub async fn start() -> Option<Self> {
        let directory = TempDir::new().expect("a directory is made");
        let as_root = rustix::process::geteuid().is_root();
        if as_root {
            std::os::unix::fs::chown(directory.path(), Some(USER), Some(USER)).expect("a directory is given away");
        }
        let command = |program: &str| {
            let mut command = Command::new(program);
            if as_root {
                command.uid(USER).gid(USER);
            }
            command.current_dir(directory.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            command
        };
        let mut creation = command("initdb");
        creation.args(["--pgdata=data", "--username=orcas", "--no-sync", "--locale=C", "--encoding=UTF8"]);
        creation.args(["--auth-local=trust", "--auth-host=scram-sha-256"]);
        match creation.status() {
            Ok(status) => assert!(status.success(), "initdb fails"),
            Err(error) => {
                println!("rows are not tested: initdb: {error}");
                return None;
            }
        }
        let port = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free").local_addr().ok()?.port();
        let mut server = command("postgres");
        server.args(["-D", "data", "-F", "-c", "listen_addresses=127.0.0.1", "-c", "shared_buffers=16MB"]);
        server.arg("-k").arg(directory.path()).arg("-p").arg(port.to_string());
        let database = Self { port, server: server.spawn().expect("postgres starts"), directory };
        let mut client = database.connect().await;
        for _ in 0..1200 {
            if client.is_ok() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
            client = database.connect().await;
        }
        let client = client.expect("postgres accepts connections within a minute");
        client.batch_execute("ALTER USER orcas PASSWORD 'secret'").await.expect("a password is set");
        Some(database)
    }

    pub fn ground(&self) -> Ground {
        Ground { url: "postgresql://orcas:secret@127.0.0.1:PORT/postgres?log=LOG", port: self.port }
    }

    async fn connect(&self) -> Result<Client, tokio_postgres::Error> {
        let socket = self.directory.path().display();
        let (client, connection) =
            tokio_postgres::connect(&format!("host={socket} port={} user=orcas dbname=postgres", self.port), NoTls)
                .await?;
        tokio::spawn(connection);
        Ok(client)
    }

    /// Runs statements as an operator does, each on its own.
    pub async fn run(&self, statements: &[&str]) {
        let client = self.connect().await.expect("the operator connects");
        for statement in statements {
            client.batch_execute(statement).await.expect(statement);
        }
    }

    pub async fn count(&self, query: &str) -> i64 {
        let client = self.connect().await.expect("the operator connects");
        client.query_one(query, &[]).await.expect(query).get(0)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let id = rustix::process::Pid::from_child(&self.server);
        let _ = rustix::process::kill_process(id, rustix::process::Signal::INT);
        let _ = self.server.wait();
    }
}
