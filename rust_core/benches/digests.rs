//! What a byte of content costs in digests: `cargo bench --bench digests`.
//!
//! Each figure is the rate of one core. The lanes are as many messages of one size, hashed at once.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use md5::{Digest as _, Md5};
use orcas_checksum::{ChecksumAlgorithm, Hasher, Md5Hasher};

const MESSAGE: usize = 256 * 1024;

fn message(number: usize) -> Vec<u8> {
    (0..MESSAGE).map(|place| (place.wrapping_mul(2_654_435_761).wrapping_add(number) >> 8) as u8).collect()
}

fn one(criterion: &mut Criterion) {
    let bytes = message(0);
    let mut group = criterion.benchmark_group("one");
    group.throughput(Throughput::Bytes(MESSAGE as u64));
    group.bench_function("md5", |bench| bench.iter(|| Md5Hasher::digest(black_box(&bytes))));
    group.bench_function("md5, md-5 crate", |bench| bench.iter(|| Md5::digest(black_box(&bytes))));
    group.bench_function("blake3", |bench| bench.iter(|| blake3::hash(black_box(&bytes))));
    for algorithm in [ChecksumAlgorithm::Sha256, ChecksumAlgorithm::Crc64Nvme] {
        group.bench_function(algorithm.name(), |bench| bench.iter(|| Hasher::digest(algorithm, black_box(&bytes))));
    }
    group.finish();
}

fn gateways(criterion: &mut Criterion) {
    let messages: Vec<_> = (0..16).map(message).collect();
    let mut group = criterion.benchmark_group("md5 lanes");
    for count in [1, 2, 3, 4, 6, 8, 12, 16] {
        group.throughput(Throughput::Bytes((count * MESSAGE) as u64));
        let mut hashers = vec![Md5Hasher::new(); count];
        group.bench_function(count.to_string(), |bench| {
            bench.iter(|| Md5Hasher::update_all(hashers.iter_mut().zip(messages.iter().map(|m| black_box(&m[..])))));
        });
    }
    group.finish();
}

criterion_group!(benches, one, gateways);
criterion_main!(benches);
