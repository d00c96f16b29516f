//! The settings of a bucket, which replace those of the store: set by CreateBucket, shown by HeadBucket, changed by the
//! extension PutBucketSettings. A change replaces only the settings that it names.

use orcas_base::block::CHUNK_LENGTH_MAX;
use orcas_decide::SettingsChange;
use orcas_http::Headers;
use orcas_record::{BucketSettings, Chunking, Durability, RefLevel};
use orcas_responses::response::HeaderBlock;
use orcas_s3::S3Error;
use orcas_s3::extensions::{CHUNK_SIZE, CHUNKING, DURABILITY, KEEP_SHA256, REF_LEVEL, single};

/// Bytes that a chunk may have: smaller ones cost more in records than they hold.
const CHUNK_SIZES: std::ops::RangeInclusive<u32> = 64 * 1024..=CHUNK_LENGTH_MAX;

/// The value that removes a setting from a bucket.
const DEFAULT: &str = "default";

/// The change that the headers of a request ask for.
pub fn read_change(headers: &Headers<'_>) -> Result<SettingsChange, S3Error> {
    let chunk_sizes = "A chunk must have 65536 to 67108864 bytes, or default";
    let durability = "The durability must be sync, interval, buffered, unsafe-none or default";
    let ref_level = "The reference level must be off, full, fast or default";
    let chunking = "The chunking must be fixed, content-defined or default";
    let keep_sha256 = read(headers, KEEP_SHA256, "The setting keep-sha256 must be true, false or default", boolean)?;
    Ok(SettingsChange {
        chunk_size: read(headers, CHUNK_SIZE, chunk_sizes, chunk_size)?,
        durability: read(headers, DURABILITY, durability, Durability::from_name)?,
        ref_level: read(headers, REF_LEVEL, ref_level, RefLevel::from_name)?,
        chunking: read(headers, CHUNKING, chunking, Chunking::from_name)?,
        keep_sha256: keep_sha256.map(Option::unwrap_or_default),
    })
}

fn read<T>(
    headers: &Headers<'_>,
    name: &'static str,
    message: &'static str,
    value_of: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<Option<T>>, S3Error> {
    let Some(value) = single(headers, name)? else { return Ok(None) };
    match std::str::from_utf8(value) {
        Ok(DEFAULT) => Ok(Some(None)),
        Ok(text) => match value_of(text) {
            Some(value) => Ok(Some(Some(value))),
            None => Err(S3Error::argument(message, name, value)),
        },
        Err(_) => Err(S3Error::argument(message, name, value)),
    }
}

fn chunk_size(text: &str) -> Option<u32> {
    let digits = Some(text).filter(|text| text.bytes().all(|b| b.is_ascii_digit()))?;
    digits.parse().ok().filter(|size| CHUNK_SIZES.contains(size))
}

fn boolean(text: &str) -> Option<bool> {
    text.parse().ok()
}

/// Appends the headers of the bucket's own settings.
pub fn show(settings: &BucketSettings, headers: &mut HeaderBlock) {
    if let Some(size) = settings.chunk_size {
        headers.push_number(CHUNK_SIZE, u64::from(size));
    }
    for (name, value) in [
        (DURABILITY, settings.durability.map(Durability::name)),
        (REF_LEVEL, settings.ref_level.map(RefLevel::name)),
        (CHUNKING, settings.chunking.map(Chunking::name)),
        (KEEP_SHA256, settings.keep_sha256.then_some("true")),
    ] {
        if let Some(value) = value {
            headers.push(name, value.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use orcas_s3::ErrorCode;

    fn parse(headers: &[(&str, &str)]) -> Result<SettingsChange, ErrorCode> {
        let list: Vec<(&[u8], &[u8])> = headers.iter().map(|(n, v)| (n.as_bytes(), v.as_bytes())).collect();
        read_change(&Headers::new(&list)).map_err(|error| error.code)
    }

    #[test]
    fn a_change_replaces_what_it_names() {
        let all = [
            (CHUNK_SIZE, "65536"),
            (DURABILITY, "buffered"),
            (REF_LEVEL, "2"),
            (CHUNKING, "content-defined"),
            (KEEP_SHA256, "true"),
        ];
        let set = parse(&all).unwrap().applied_to(BucketSettings::default());
        let expected = BucketSettings {
            chunk_size: Some(65_536),
            durability: Some(Durability::Buffered),
            ref_level: Some(RefLevel::Fast),
            chunking: Some(Chunking::ContentDefined),
            keep_sha256: true,
        };
        assert_eq!(set, expected);
        assert_eq!(parse(&[]).unwrap().applied_to(set), set);
        let one = parse(&[(REF_LEVEL, "off")]).unwrap().applied_to(set);
        assert_eq!(one, BucketSettings { ref_level: Some(RefLevel::Off), ..set });
        let none: Vec<(&str, &str)> = all.iter().map(|(name, _)| (*name, "default")).collect();
        assert_eq!(parse(&none).unwrap().applied_to(set), BucketSettings::default());
    }

    #[test]
    fn values_out_of_bounds_are_refused() {
        for (name, value) in [
            (CHUNK_SIZE, "65535"),
            (CHUNK_SIZE, "67108865"),
            (CHUNK_SIZE, "+65536"),
            (CHUNK_SIZE, ""),
            (DURABILITY, "none"),
            (REF_LEVEL, "3"),
            (REF_LEVEL, "FULL"),
            (CHUNKING, "fastcdc"),
            (KEEP_SHA256, "1"),
            (KEEP_SHA256, "Default"),
        ] {
            assert_eq!(parse(&[(name, value)]), Err(ErrorCode::InvalidArgument), "{name}: {value}");
        }
        assert_eq!(parse(&[(REF_LEVEL, "off"), (REF_LEVEL, "full")]), Err(ErrorCode::InvalidArgument));
    }

    #[test]
    fn what_is_shown_can_be_set_again() {
        let settings = BucketSettings {
            chunk_size: Some(1 << 20),
            durability: Some(Durability::Interval),
            ref_level: Some(RefLevel::Full),
            chunking: Some(Chunking::Fixed),
            keep_sha256: true,
        };
        let mut shown = HeaderBlock::new();
        show(&settings, &mut shown);
        let list: Vec<(&[u8], &[u8])> = shown.iter().map(|(name, value)| (name.as_bytes(), value)).collect();
        let change = read_change(&Headers::new(&list)).unwrap();
        assert_eq!(change.applied_to(BucketSettings::default()), settings);
    }
}
