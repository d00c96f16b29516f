//! Standard base64, the encoding of checksums and Content-MD5 on the wire. Pure.

/// Standard base64 with padding.
pub fn base64_encode(data: &[u8]) -> String {
    quads(data).flatten().map(char::from).collect()
}

/// Appends standard base64 with padding.
pub fn base64_encode_into(out: &mut Vec<u8>, data: &[u8]) {
    quads(data).for_each(|quad| out.extend_from_slice(&quad));
}

/// Four characters for each three bytes; the last group may be incomplete.
fn quads(data: &[u8]) -> impl Iterator<Item = [u8; 4]> {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    data.chunks(3).map(|group| {
        let bits = group.iter().fold(0u32, |bits, &byte| bits << 8 | u32::from(byte)) << (8 * (3 - group.len()));
        std::array::from_fn(|place| {
            let index = (bits >> (18 - 6 * place) & 63) as usize;
            if place <= group.len() { ALPHABET[index] } else { b'=' }
        })
    })
}

/// Decodes canonical standard base64: with padding, unused bits zero, and no other characters. `None` otherwise.
pub fn base64_decode(text: &[u8]) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let padding = text.iter().rev().take_while(|&&b| b == b'=').count();
    if padding > 2 {
        return None;
    }
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut held) = (0u32, 0u32);
    for &symbol in &text[..text.len() - padding] {
        let value = match symbol {
            b'A'..=b'Z' => symbol - b'A',
            b'a'..=b'z' => symbol - b'a' + 26,
            b'0'..=b'9' => symbol - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push((bits >> held & 255) as u8);
        }
    }
    (bits & ((1 << held) - 1) == 0).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn malformed_base64_is_refused() {
        for bad in ["A", "AA", "AAA", "A===", "====", "AA=A", "AB==", "AAB=", "AA==\n", "AA--", " AAA"] {
            assert_eq!(base64_decode(bad.as_bytes()), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn base64_round_trips(data in proptest::collection::vec(any::<u8>(), 0..80)) {
            let text = base64_encode(&data);
            prop_assert_eq!(base64_decode(text.as_bytes()), Some(data));
        }
    }
}
