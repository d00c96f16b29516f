//! Where a test finds its store, and random numbers that can be repeated.

use std::time::Duration;

use orcas_log_stores::{Credentials, LogStore, Options};

#[derive(Clone)]
pub struct Ground {
    /// `LOG` and `PORT` stand for the name of a log and the port of the server.
    pub url: &'static str,
    pub port: u16,
}

impl Ground {
    pub fn bucket(port: u16) -> Self {
        Self { url: "s3://logs/LOG?endpoint=http://127.0.0.1:PORT", port }
    }

    pub fn through(&self, port: u16) -> Self {
        Self { port, ..self.clone() }
    }

    pub fn url(&self, log: &str) -> String {
        self.url.replace("LOG", log).replace("PORT", &self.port.to_string())
    }

    pub async fn open(&self, log: &str) -> LogStore {
        LogStore::open(&self.url(log), &options()).await.expect("the store opens")
    }
}

pub fn options() -> Options {
    let variable = |name, default: &str| std::env::var(name).unwrap_or_else(|_| default.to_owned());
    let credentials = Credentials {
        access_key: variable("AWS_ACCESS_KEY_ID", "access"),
        secret_key: variable("AWS_SECRET_ACCESS_KEY", "secret"),
        session_token: None,
    };
    Options {
        credentials: Some(credentials),
        authorities: String::new(),
        call_timeout: Duration::from_secs(5),
        deadline: Duration::from_secs(60),
    }
}

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn from_the_system() -> u64 {
        getrandom::u64().expect("there are random numbers") >> 16
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}
