//! What a GET of 1 KiB from memory costs when several threads answer at once, from a signed head to the end of the request:
//! the time that threads lose to each other shows the locks and counters that they share.
//!
//! `cargo bench --bench threads -- [--rounds N] [--seconds S] [--json]`. Numbers of threads up to twice the processors, in
//! turn in every round. With `--json` the only line on stdout is a list of documents, one for each number.

#[path = "support/arguments.rs"]
mod arguments;
#[path = "support/gateway.rs"]
mod gateway;
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use arguments::Arguments;
use bytes::Bytes;
use gateway::{Server, Signed};
use orcas_gateway::{Admission, Begun, Completion, Done, Ingress, Responder, ResponseSummary};
use support::scatter;

/// Objects, so that threads seldom ask for the same one.
const OBJECTS: usize = 256;
const SIZE: usize = 1 << 10;

/// What is in memory is answered at once.
struct Nobody;

impl Responder for Nobody {
    fn complete_quietly(&self, _slot: u32, _completion: Completion) -> bool {
        panic!("a GET from memory has to wait")
    }

    fn wake(&self) {}
}

fn main() {
    let arguments = Arguments::read(7, 0.5);
    let dir = tempfile::tempdir_in(&arguments.dir).expect("a directory");
    let server = Server::open(dir.path(), true);
    let path = |n: usize| format!("/bucket/{:016x}", scatter(n as u64));
    server.call(&server.sign("PUT", "/bucket".into(), "", 0), b"");
    for n in 0..OBJECTS {
        let content = scatter(n as u64).to_le_bytes().repeat(SIZE / 8);
        server.call(&server.sign("PUT", path(n), "", SIZE), &content);
    }
    server.settle();
    let gets: Vec<Signed> = (0..OBJECTS).map(|n| server.sign("GET", path(n), "", 0)).collect();
    gets.iter().for_each(|get| assert_eq!(server.call(get, b""), SIZE as u64));
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let counts: Vec<usize> = (0..).map(|power| 1 << power).take_while(|count| *count <= 2 * processors).collect();
    let mut rates = vec![Vec::new(); counts.len()];
    for _ in 0..arguments.rounds {
        for (at, count) in counts.iter().enumerate() {
            rates[at].push(rate(&server, &gets, *count, &arguments));
        }
    }
    let mut documents = Vec::new();
    for (count, rates) in counts.iter().zip(&rates) {
        let mut sorted = rates.clone();
        sorted.sort_by(f64::total_cmp);
        if !arguments.json {
            println!("{count:>3} threads {:>10.0} GETs a second", sorted[sorted.len() / 2]);
        }
        documents.push(format!("{{\"threads\": {count}, \"rates\": {rates:.0?}}}"));
    }
    if arguments.json {
        println!("[{}]", documents.join(", "));
    }
}

/// GETs a second of all threads together.
fn rate(server: &Server, gets: &[Signed], threads: usize, arguments: &Arguments) -> f64 {
    let over = AtomicBool::new(false);
    let began = Instant::now();
    let done: usize = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|thread| {
                let over = &over;
                scope.spawn(move || {
                    let responder: Arc<dyn Responder> = Arc::new(Nobody);
                    let mut done = 0;
                    while !over.load(Ordering::Relaxed) {
                        get(server, &responder, &gets[(thread * 61 + done) % gets.len()]);
                        done += 1;
                    }
                    done
                })
            })
            .collect();
        std::thread::sleep(arguments.span);
        over.store(true, Ordering::Relaxed);
        running.into_iter().map(|thread| thread.join().expect("a thread ends well")).sum()
    });
    done as f64 / began.elapsed().as_secs_f64()
}

fn get(server: &Server, responder: &Arc<dyn Responder>, get: &Signed) {
    let ingress = Ingress::now("127.0.0.1", false, 0);
    let Begun::Accepted(Ok(request)) = get.head(|head| server.gateway.begin(head, &ingress, responder)) else {
        panic!("the head is taken");
    };
    let answer = Arc::clone(&request).start(Bytes::new(), 0).expect("at hand, because it was just read");
    let summary = ResponseSummary::of(&answer);
    assert!(summary.status == 200 && summary.body == SIZE as u64, "status {}", summary.status);
    server.gateway.finish(&Done { admission: Admission::Request(&*request), response: Some(&summary), refusal: None });
}
