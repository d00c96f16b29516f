//! Header formatting of responses beside the straightforward way, both in one process.
//!
//! `cargo bench --bench headers`. First the allocations of each call are counted and those that must not be are
//! refused, then Criterion measures. `-- --save-baseline NAME` keeps the figures, `-- --baseline NAME` compares.

#[path = "support/counting.rs"]
mod counting;
#[path = "support/objects.rs"]
mod objects;
#[path = "support/plain.rs"]
mod plain;

use std::hint::black_box;
use std::time::Instant;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion};
use orcas_s3::format::{DAYS_MAX, format_content_length, format_content_range, format_etag, format_last_modified};
use orcas_s3::header_block::HeaderBlock;

use counting::{Allocated, Counting};
use objects::{CONTENT_TYPE, DAY_MS, OBJECTS, Object, Objects, object, small};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// From 1 GiB to 5 TiB, the most that S3 stores.
fn large(scattered: u64) -> u64 {
    (1 << 30) + (scattered >> 22)
}

fn main() {
    let mut criterion = Criterion::default().without_plots().configure_from_args();
    let objects = std::array::from_fn(|number| object(number, small));
    let etag = (
        |out: &mut Vec<u8>, object: &Object| format_etag(out, &object.etag),
        |object: &Object| plain::etag(object.etag.md5, object.etag.parts),
    );
    compare(&mut criterion, "etag", &objects, etag);
    let content_length = (
        |out: &mut Vec<u8>, object: &Object| format_content_length(out, object.length),
        |object: &Object| plain::content_length(object.length),
    );
    compare(&mut criterion, "content-length", &objects, content_length);
    let last_modified = (
        |out: &mut Vec<u8>, object: &Object| format_last_modified(out, object.modified_ms),
        |object: &Object| plain::last_modified(object.modified_ms),
    );
    compare(&mut criterion, "last-modified, hit", &objects, last_modified);
    let content_range = (
        |out: &mut Vec<u8>, object: &Object| {
            format_content_range(out, object.range.0, object.range.1, object.range.2);
        },
        |object: &Object| plain::content_range(object.range.0, object.range.1, object.range.2),
    );
    compare(&mut criterion, "content-range", &objects, content_range);
    five_headers(&mut criterion, &objects);

    // Whose days all belong in one place of the table: each takes it from the one before.
    let rivals = std::array::from_fn(|n| Object { modified_ms: (n * DAYS_MAX) as i64 * DAY_MS, ..object(n, small) });
    compare(&mut criterion, "last-modified, miss", &rivals, last_modified);
    let mut of_parts: Objects = std::array::from_fn(|number| object(number, large));
    of_parts.iter_mut().for_each(|object| object.etag.parts = 128);
    compare(&mut criterion, "etag, 128 parts", &of_parts, etag);
    compare(&mut criterion, "content-length, up to 5 TiB", &of_parts, content_length);
    compare(&mut criterion, "content-range, up to 5 TiB", &of_parts, content_range);
    criterion.final_summary();
}

fn five_headers(criterion: &mut Criterion, objects: &Objects) {
    let name = "five headers of a GET";
    let mut group = criterion.benchmark_group(name);
    let mut block = HeaderBlock::new();
    let allocated = measure(&mut group, (name, "optimised"), objects, |object| {
        block.clear();
        let kind = CONTENT_TYPE.as_bytes();
        block.set_object_headers_with_content_type(&object.etag, object.length, object.modified_ms, kind);
    });
    assert_eq!(allocated, 0, "the optimised way allocates");
    measure(&mut group, (name, "straightforward"), objects, |object| {
        plain::object_headers(object.etag.md5, object.etag.parts, object.length, object.modified_ms, CONTENT_TYPE)
    });
    group.finish();
}

/// Measures two ways to format one value. The first one writes to a buffer that has room, and must not allocate.
fn compare(
    criterion: &mut Criterion,
    name: &str,
    objects: &Objects,
    (optimised, straightforward): (impl Fn(&mut Vec<u8>, &Object), impl Fn(&Object) -> String),
) {
    let mut group = criterion.benchmark_group(name);
    let mut out = Vec::with_capacity(128);
    let allocated = measure(&mut group, (name, "optimised"), objects, |object| {
        out.clear();
        optimised(&mut out, object);
    });
    assert_eq!(allocated, 0, "the optimised way allocates");
    measure(&mut group, (name, "straightforward"), objects, straightforward);
    group.finish();
}

/// Measures one way to format a value, and returns the allocations of a call.
fn measure<T>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    (value, way): (&str, &str),
    objects: &Objects,
    mut format: impl FnMut(&Object) -> T,
) -> u64 {
    // What stays from call to call is there from now on.
    objects.iter().for_each(|object| drop(black_box(format(object))));
    let before = Allocated::now();
    drop(black_box(format(black_box(&objects[0]))));
    let allocated = before.since().count;
    println!("{value}/{way}: {allocated} allocations a call");
    group.bench_function(way, |bencher| {
        bencher.iter_custom(|calls| {
            let started = Instant::now();
            for call in 0..calls as usize {
                black_box(format(black_box(&objects[call % OBJECTS])));
            }
            started.elapsed()
        });
    });
    allocated
}
