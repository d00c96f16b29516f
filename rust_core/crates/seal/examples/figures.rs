//! What sealing costs, in nanoseconds of one core: `cargo run --release -p orcas_seal --example figures`.
//!
//! Each figure is the least of many short runs, so other processes on the machine matter little. Ids of blobs come from
//! a counter, not from random numbers. To open changes the bytes, so they are copied before each time, which counts.

use std::hint::black_box;
use std::time::{Duration, Instant};

use orcas_seal::{
    Algorithm, AuthTag, BlobKey, CacheLimits, DataKey, DataKeyId, FreshId, Kdf, KeyCache, KeyName, Keyring,
    MasterCache, MasterSecret, Result, ScryptParams, SealId, StoreId, auth_tag_count,
};
use ring::aead::{AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};

const STORE: StoreId = StoreId([1; 16]);
const LARGE: usize = 4 << 20;
const SIZES: [usize; 4] = [10, 100, 1000, 10_000];

/// Nanoseconds of one call.
fn nanoseconds(mut call: impl FnMut()) -> f64 {
    let mut calls = 1u32;
    let mut run = |calls: u32| {
        let start = Instant::now();
        (0..calls).for_each(|_| call());
        start.elapsed()
    };
    while run(calls) < Duration::from_micros(100) {
        calls *= 2;
    }
    let end = Instant::now() + Duration::from_millis(500);
    let mut least = run(calls);
    while Instant::now() < end {
        least = least.min(run(calls));
    }
    least.as_nanos() as f64 / f64::from(calls)
}

fn report(name: &str, size: usize, nanoseconds: f64) {
    println!("{name:<44} {size:>8} bytes {nanoseconds:>12.1} ns");
}

fn fresh(counter: &mut u64) -> FreshId {
    *counter += 1;
    let count = *counter;
    let mut fill = |bytes: &mut [u8]| {
        bytes[..8].copy_from_slice(&count.to_le_bytes());
        Ok(())
    };
    FreshId::draw(&mut fill).expect("a counter does not fail")
}

fn seal(
    data_key: &DataKey,
    algorithm: Algorithm,
    id: FreshId,
    bytes: &mut [u8],
    tags: &mut [AuthTag],
) -> (SealId, BlobKey) {
    let mut sealer = data_key.sealer(algorithm, id, bytes.len() as u64);
    sealer.seal_in_place(bytes, tags).expect("all blocks at once");
    (sealer.id(), sealer.finish().expect("all blocks at once"))
}

fn blobs(data_key: &DataKey, algorithm: Algorithm) {
    let counter = &mut 0;
    let cache: KeyCache<SealId, BlobKey> = KeyCache::new(CacheLimits::default());
    println!("{algorithm:?}");
    for size in SIZES.into_iter().chain([LARGE]) {
        let length = size as u64;
        let (mut bytes, mut tags) = (vec![7; size], vec![[0; 16]; auth_tag_count(length) as usize]);
        let cost = nanoseconds(|| {
            black_box(seal(data_key, algorithm, fresh(counter), black_box(&mut bytes), &mut tags));
        });
        report("seal, data key cached", size, cost);
        if size < LARGE {
            let cost = prepared(data_key, algorithm, counter, (&mut bytes, &mut tags));
            report("seal, blob key made before", size, cost);
        }
        let (id, _) = seal(data_key, algorithm, fresh(counter), &mut bytes, &mut tags);
        let mut plain = vec![0; size];
        let cost = nanoseconds(|| {
            plain.copy_from_slice(&bytes);
            let key = data_key.blob_key(algorithm, black_box(id));
            key.open_in_place(0, length, &mut plain, &tags).expect("nothing was changed");
        });
        report("open, data key cached", size, cost);
        let cost = nanoseconds(|| {
            plain.copy_from_slice(&bytes);
            let made = || Ok::<_, ()>(data_key.blob_key(algorithm, id));
            let key = cache.get_or_make(black_box(&id), 0, made).expect("it is made from a good key");
            key.open_in_place(0, length, &mut plain, &tags).expect("nothing was changed");
        });
        report("open, blob key looked up in the cache", size, cost);
    }
    library(data_key, algorithm);
}

/// Nanoseconds to seal a blob whose key was derived and expanded before.
fn prepared(
    data_key: &DataKey,
    algorithm: Algorithm,
    counter: &mut u64,
    (bytes, tags): (&mut [u8], &mut [AuthTag]),
) -> f64 {
    const BLOBS: u32 = 32;
    let end = Instant::now() + Duration::from_millis(500);
    let mut least = Duration::MAX;
    while Instant::now() < end {
        let sealer = |_| data_key.sealer(algorithm, fresh(counter), bytes.len() as u64);
        let mut sealers: Vec<_> = (0..BLOBS).map(sealer).collect();
        let start = Instant::now();
        sealers.iter_mut().for_each(|sealer| sealer.seal_in_place(bytes, tags).expect("all blocks at once"));
        least = least.min(start.elapsed());
    }
    least.as_nanos() as f64 / f64::from(BLOBS)
}

/// The cipher over one message, without anything else, beside a sealed blob.
fn library(data_key: &DataKey, algorithm: Algorithm) {
    let ring = match algorithm {
        Algorithm::Aes256Gcm => &AES_256_GCM,
        Algorithm::ChaCha20Poly1305 => &CHACHA20_POLY1305,
    };
    let key = LessSafeKey::new(UnboundKey::new(ring, &[3; 32]).expect("32 bytes are a key"));
    let (mut bytes, mut tags) = (vec![7; LARGE], vec![[0; 16]; auth_tag_count(LARGE as u64) as usize]);
    let counter = &mut 0;
    let (mut alone, mut sealed) = (f64::MAX, f64::MAX);
    // In turn, so that both meet the same load.
    for _ in 0..4 {
        alone = alone.min(nanoseconds(|| {
            let nonce = Nonce::assume_unique_for_key([0; 12]);
            let _ = black_box(key.seal_in_place_separate_tag(nonce, Aad::empty(), black_box(&mut bytes)));
        }));
        sealed = sealed.min(nanoseconds(|| {
            black_box(seal(data_key, algorithm, fresh(counter), black_box(&mut bytes), &mut tags));
        }));
    }
    report("the library alone, one message", LARGE, alone);
    report("seal, data key cached", LARGE, sealed);
    println!("{:.1} MB/s sealed; {:.3} of the library's rate", LARGE as f64 * 1e3 / sealed, alone / sealed);
}

fn caches() {
    let cache: KeyCache<DataKeyId, u64> = KeyCache::new(CacheLimits::default());
    let id = |number: u64| DataKeyId((u128::from(number) * 0x9e37_79b9_7f4a_7c15).to_le_bytes());
    for number in 0..500 {
        cache.get_or_make(&id(number), 0, || Ok::<_, ()>(number)).expect("it is made");
    }
    let mut number = 0;
    let cost = nanoseconds(|| {
        number = (number + 7) % 500;
        black_box(cache.get(&id(number), 1000).expect("it is cached"));
    });
    println!("{:<61} {cost:>12.1} ns", "key cache, hit among 500");

    let masters = MasterCache::new(CacheLimits::default());
    let secret = MasterSecret::from_passphrase(b"correct horse battery staple").expect("it is short");
    let kdf = Kdf::Scrypt { params: ScryptParams::DEFAULT, salt: [9; 32] };
    let start = Instant::now();
    masters.derive(&secret, kdf, 0).expect("the parameters are good");
    println!("{:<61} {:>12} ns", "scrypt, N = 32,768, the first time", start.elapsed().as_nanos());
    let cost = nanoseconds(|| {
        black_box(masters.derive(black_box(&secret), kdf, 1000).expect("it is cached"));
    });
    println!("{:<61} {cost:>12.1} ns", "scrypt, cached");
}

fn keyrings(data_key: &DataKey) -> Result<()> {
    let (counter, context) = (&mut 0, Default::default());
    let domain = orcas_seal::Domain { store: STORE, owner: b"owner", context: &context };
    let mut keyring = Keyring::new(STORE);
    let mut random = |bytes: &mut [u8]| {
        bytes.fill(5);
        Ok(())
    };
    let id = keyring.create(KeyName::new("main")?, 0, &mut random)?;
    let wrapped = keyring.wrap(id, data_key, &domain, fresh(counter))?;
    let cost = nanoseconds(|| {
        black_box(keyring.unwrap(black_box(&wrapped), &domain).expect("nothing was changed"));
    });
    println!("{:<61} {cost:>12.1} ns", "data key unwrapped");
    Ok(())
}

fn main() -> Result<()> {
    let mut random = |bytes: &mut [u8]| {
        bytes.fill(6);
        Ok(())
    };
    let data_key = DataKey::generate(STORE, &mut random)?;
    println!("preferred here: {:?}", Algorithm::preferred());
    caches();
    keyrings(&data_key)?;
    blobs(&data_key, Algorithm::Aes256Gcm);
    blobs(&data_key, Algorithm::ChaCha20Poly1305);
    Ok(())
}
