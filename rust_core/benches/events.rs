//! Events: the parser of server-sent events, and JSON in both directions.
//!
//! `cargo bench --features criterion --bench events`. Streams and plain records have the shapes of the report whose
//! figures are to be reproduced: a large, a middle and a small event of a chat, a message of three short texts, and one
//! with nested parts. The rest is what Orcas sends.

use std::hint::black_box;

use criterion::{BenchmarkGroup, Criterion, Throughput, measurement::WallTime};
use orcas_events::json::{Context, parse_records, write_records};
use orcas_events::sse::{Limits, Parser, write_event};
use orcas_events::{Bucket, Event, EventName, Object, Place};
use serde::{Deserialize, Serialize};

const LIMITS: Limits = Limits { line_len_max: 1 << 20, data_len_max: 1 << 20 };
const CONTEXT: Context<'_> =
    Context { region: "us-east-1", host_id: "nUMmxZGVJOQ", configuration_id: "images", name_prefix: "" };
const STREAM_LEN: usize = 1 << 20;

const LARGE: &str = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_456\",\"type\":\
                     \"message\",\"role\":\"assistant\",\"content\":[],\"model\":\"claude-3-5-sonnet-20241022\",\
                     \"stop_reason\":null,\"stop_sequence\":null,\"usage\":{\"input_tokens\":25,\"output_tokens\":1}}}\n\n";
const MIDDLE: &str = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":\
                      {\"type\":\"text_delta\",\"text\":\"Hello! How can I help you today?\"}}\n\n";
const SMALL: &str =
    "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\n";

#[derive(Clone, Serialize, Deserialize)]
struct Simple<'a> {
    id: &'a str,
    role: &'a str,
    content: &'a str,
}

#[derive(Serialize, Deserialize)]
struct Nested<'a> {
    id: &'a str,
    #[serde(rename = "type")]
    kind: &'a str,
    role: &'a str,
    #[serde(borrow)]
    content: Vec<Part<'a>>,
    model: &'a str,
    usage: Usage,
}

#[derive(Serialize, Deserialize)]
struct Part<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    text: &'a str,
}

#[derive(Serialize, Deserialize)]
struct Usage {
    input_tokens: u64,
    output_tokens: u64,
}

fn event(number: u64) -> Event {
    Event {
        name: EventName::ObjectCreatedPut,
        place: Place { sequence: number, ordinal: 0 },
        time_ms: 1_767_323_045_678 + number,
        bucket: Bucket { name: "photos".into(), owner: "d41d8cd98f00b204".repeat(4), id: 1 },
        object: Some(Object {
            key: format!("2026/november/{number:08}.jpg").into(),
            size: Some(1024),
            etag: "d41d8cd98f00b204e9800998ecf8427e".into(),
            version_id: String::new(),
        }),
        principal: "d41d8cd98f00b204".repeat(4),
        request_id: "00000000000000AB".into(),
        source_address: String::new(),
    }
}

fn message(events: &[Event]) -> Vec<u8> {
    let mut out = Vec::new();
    write_records(&mut out, CONTEXT, events);
    out
}

/// Parses `stream`, given in one piece, again and again.
fn parse(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, stream: &[u8]) {
    group.throughput(Throughput::Bytes(stream.len() as u64));
    group.bench_function(name, |bencher| {
        let mut parser = Parser::new(LIMITS);
        bencher.iter(|| {
            let mut bytes = 0;
            let result = parser.push(black_box(stream), &mut |message| bytes += black_box(message).data.len());
            assert!(result.is_ok() && bytes > 0);
        });
    });
}

fn streams(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("server-sent events");
    for (name, stream) in [("large", LARGE), ("middle", MIDDLE), ("small", SMALL)] {
        parse(&mut group, name, stream.as_bytes());
    }
    let mut stream = Vec::new();
    while stream.len() < STREAM_LEN {
        let number = stream.len() as u64;
        write_event(&mut stream, &event(number).place.to_string(), "message", &message(&[event(number)]));
    }
    parse(&mut group, "1 MiB of Orcas", &stream);
    group.finish();
}

fn records(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("records of the report");
    let simple = Simple { id: "msg_123", role: "assistant", content: "Hello! How can I help you today?" };
    let nested = Nested {
        id: "msg_456",
        kind: "message",
        role: "assistant",
        content: vec![
            Part { kind: "text", text: "Hello! How can I help you today?" },
            Part { kind: "text", text: "I can look things up, write, and calculate." },
        ],
        model: "claude-3-5-sonnet-20241022",
        usage: Usage { input_tokens: 25, output_tokens: 310 },
    };
    let (simple_text, nested_text) = (text(&simple), text(&nested));
    write(&mut group, "simple, write", &simple);
    write(&mut group, "nested, write", &nested);
    group.bench_function("simple, read", |bencher| {
        bencher.iter(|| serde_json::from_str::<Simple<'_>>(black_box(&simple_text)).map(|read| read.id.len()));
    });
    group.bench_function("nested, read", |bencher| {
        bencher
            .iter(|| serde_json::from_str::<Nested<'_>>(black_box(&nested_text)).map(|read| read.usage.input_tokens));
    });
    for count in [10, 100, 1000] {
        let list = vec![simple.clone(); count];
        write(&mut group, &format!("{count}, write"), &list);
    }
    group.finish();
}

/// Writes `value` as text of its own, and again and again into one buffer, as Orcas does.
fn write<T: Serialize>(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, value: &T) {
    group.bench_function(name, |bencher| bencher.iter(|| text(black_box(value))));
    let mut out = Vec::new();
    group.bench_function(format!("{name} into a buffer"), |bencher| {
        bencher.iter(|| {
            out.clear();
            serde_json::to_writer(&mut out, black_box(value)).expect("text and numbers, written to memory");
            out.len()
        });
    });
}

fn text<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("text and numbers")
}

fn messages(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("events of Orcas");
    for count in [1, 10, 100, 1000] {
        let list: Vec<Event> = (0..count).map(event).collect();
        let json = message(&list);
        group.throughput(Throughput::Bytes(json.len() as u64));
        let mut out = Vec::with_capacity(json.len());
        group.bench_function(format!("{count}, write"), |bencher| {
            bencher.iter(|| {
                out.clear();
                write_records(&mut out, CONTEXT, black_box(&list));
                out.len()
            });
        });
        group.bench_function(format!("{count}, read"), |bencher| bencher.iter(|| parse_records(black_box(&json))));
    }
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().without_plots().configure_from_args();
    streams(&mut criterion);
    records(&mut criterion);
    messages(&mut criterion);
    criterion.final_summary();
}
