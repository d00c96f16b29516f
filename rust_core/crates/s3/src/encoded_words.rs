//! Text in the values of headers: encoded words (RFC 2047), which S3 reads and writes in user metadata, and ISO 8859-1, in
//! which it shows other values that do not come from headers.
//!
//! The choices that the RFC leaves open are those of S3, as observed: what needs to be encoded, and in which form. A
//! word that cannot be decoded stays as it was sent.

use std::borrow::Cow;

use super::errors::S3Error;
use orcas_checksum::{base64_decode, base64_encode};

/// The longest encoding of the text in a word, in characters: a word has at most 75.
const TEXT_LEN_MAX: usize = 75 - "=?UTF-8?Q??=".len();

/// The text of a value as sent: words are decoded, and bytes that are not UTF-8 count as ISO 8859-1.
pub fn decode(value: &[u8]) -> Cow<'_, [u8]> {
    match memchr::memmem::find(value, b"=?") {
        Some(_) => Cow::Owned(decode_words(&text(value)).into_bytes()),
        None => literal(value),
    }
}

/// The text of a value in which words have no meaning.
pub fn literal(value: &[u8]) -> Cow<'_, [u8]> {
    match text(value) {
        Cow::Borrowed(_) => Cow::Borrowed(value),
        Cow::Owned(text) => Cow::Owned(text.into_bytes()),
    }
}

/// The value that a header shows: the text itself if it is printable ASCII, else words.
pub fn encode(stored: &[u8]) -> Cow<'_, [u8]> {
    // No branch for each byte, so that several are compared at a time: every GET with metadata comes here.
    if stored.iter().fold(true, |plain, &byte| plain & (matches!(byte, b' '..=b'~') | (byte == b'\t'))) {
        return Cow::Borrowed(stored);
    }
    let text = text(stored);
    let other = text.chars().filter(|&shown| !matches!(shown, ' '..='~' | '\t')).map(char::len_utf16).sum::<usize>();
    let form = if text.encode_utf16().count() > 2 * other { Form::Quoted } else { Form::Base64 };
    let mut out = Vec::with_capacity(4 * text.len());
    put_words(&mut out, &text, form);
    Cow::Owned(out)
}

/// Text in ISO 8859-1, in which headers are. Any other character becomes a space for each of its units in UTF-16, as in
/// answers of S3, and so does a control character.
pub fn spaced_latin(value: &[u8]) -> Cow<'_, [u8]> {
    if value.iter().all(|byte| matches!(byte, b' '..=b'~')) {
        return Cow::Borrowed(value);
    }
    let byte = |unit: u16| u8::try_from(unit).ok().filter(can_stand_in_header).unwrap_or(b' ');
    Cow::Owned(String::from_utf8_lossy(&literal(value)).encode_utf16().map(byte).collect())
}

/// Whether a header may have a byte in its value (RFC 9110, section 5.5).
fn can_stand_in_header(byte: &u8) -> bool {
    !byte.is_ascii_control() || *byte == b'\t'
}

/// The text of a parameter in ISO 8859-1, for a header of the answer.
///
/// Errors: `InvalidArgument` for a character that a header cannot have.
pub fn latin(value: &[u8], name: &'static str) -> Result<Vec<u8>, S3Error> {
    let byte = |character: char| u8::try_from(character).ok().filter(can_stand_in_header);
    let bytes = std::str::from_utf8(value).ok().and_then(|text| text.chars().map(byte).collect());
    bytes.ok_or_else(|| S3Error::argument("Header value cannot be represented using ISO-8859-1.", name, value))
}

fn text(value: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(value) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(value.iter().map(|&byte| char::from(byte)).collect()),
    }
}

/// Decodes the words between spaces. The spaces between two words are not part of the text.
fn decode_words(sent: &str) -> String {
    let mut out = String::with_capacity(sent.len());
    let (mut spaces, mut after_word) = (0, false);
    for piece in sent.split_inclusive([' ', '\t']) {
        let token = piece.trim_end_matches([' ', '\t']);
        let decoded = decode_word(token);
        if after_word && decoded.is_some() {
            out.truncate(out.len() - spaces);
        }
        if !token.is_empty() {
            (after_word, spaces) = (decoded.is_some(), 0);
        }
        out.push_str(decoded.as_deref().unwrap_or(token));
        out.push_str(&piece[token.len()..]);
        spaces += piece.len() - token.len();
    }
    out
}

/// The text of one word, and what follows it without a space; `None` if it is no word in a known character set.
fn decode_word(word: &str) -> Option<String> {
    let (charset, rest) = word.strip_prefix("=?")?.split_once('?')?;
    let (form, rest) = rest.split_once('?')?;
    let (encoded, rest) = rest.split_once("?=")?;
    let bytes = match form {
        "B" | "b" => base64_decode(encoded.as_bytes())?,
        "Q" | "q" => unquote(encoded.as_bytes())?,
        _ => return None,
    };
    let latin = charset.eq_ignore_ascii_case("iso-8859-1");
    if !latin && !charset.eq_ignore_ascii_case("utf-8") && !charset.eq_ignore_ascii_case("us-ascii") {
        return None;
    }
    let mut text = match latin {
        true => bytes.iter().map(|&byte| char::from(byte)).collect(),
        false => String::from_utf8_lossy(&bytes).into_owned(),
    };
    text.push_str(rest);
    Some(text)
}

fn unquote(encoded: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(encoded.len());
    let mut bytes = encoded.iter().copied();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'_' => b' ',
            b'=' => orcas_http::hex_value(bytes.next()?)? << 4 | orcas_http::hex_value(bytes.next()?)?,
            byte => byte,
        });
    }
    Some(out)
}

/// The encoding of the text in a word.
#[derive(Clone, Copy)]
enum Form {
    Quoted,
    Base64,
}

impl Form {
    fn encode(self, text: &str) -> String {
        match self {
            Self::Quoted => text.bytes().map(quoted).collect(),
            Self::Base64 => base64_encode(text.as_bytes()),
        }
    }
}

/// A byte in the form `Q`. Everything printable may stand for itself but for what has a meaning there.
fn quoted(byte: u8) -> Cow<'static, str> {
    match byte {
        b' ' => Cow::Borrowed("_"),
        b'=' | b'_' | b'?' | 0..b' ' | 0x7f.. => Cow::Owned(format!("={byte:02X}")),
        byte => Cow::Owned(char::from(byte).to_string()),
    }
}

/// Appends the text in words; halves of a text that is too long for one are encoded apart.
fn put_words(out: &mut Vec<u8>, text: &str, form: Form) {
    let encoded = form.encode(text);
    let middle = text.char_indices().nth(text.chars().count() / 2).map_or(0, |(at, _)| at);
    if encoded.len() > TEXT_LEN_MAX && middle > 0 {
        put_words(out, &text[..middle], form);
        out.push(b' ');
        return put_words(out, &text[middle..], form);
    }
    let start = match form {
        Form::Quoted => "=?UTF-8?Q?",
        Form::Base64 => "=?UTF-8?B?",
    };
    for piece in [start, &encoded, "?="] {
        out.extend_from_slice(piece.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(text: &str) -> String {
        String::from_utf8(encode(text.as_bytes()).into_owned()).unwrap()
    }

    fn read(sent: &str) -> String {
        String::from_utf8(decode(sent.as_bytes()).into_owned()).unwrap()
    }

    #[test]
    fn words_are_those_that_s3_was_observed_to_send() {
        for (text, word) in [
            ("test_—_file%E2%80%94_é_2?.pdf", "=?UTF-8?Q?test=5F=E2=80=94=5Ffile%E2%80%94=5F=C3=A9=5F2=3F.pdf?="),
            ("ÄMÄZÕÑ S3", "=?UTF-8?Q?=C3=84M=C3=84Z=C3=95=C3=91_S3?="),
            ("\0\u{1}\u{2}\u{3}", "=?UTF-8?B?AAECAw==?="),
            ("\u{fffd}\u{fffd}\u{fffd}", "=?UTF-8?B?77+977+977+9?="),
        ] {
            assert_eq!(shown(text), word);
            assert_eq!(read(word), text);
        }
        let plain = "! \"#$%&'()*+,-./0123456789:;<=>?@[\\]^_`az{|}~\t";
        assert_eq!(shown(plain), plain);
        assert_eq!(encode(b"caf\xe9"), b"=?UTF-8?Q?caf=C3=A9?=".as_slice());
    }

    #[test]
    fn words_are_decoded_and_the_rest_stays() {
        for (sent, text) in [
            ("=?UTF-8?Q?actually-ascii?=", "actually-ascii"),
            ("=?utf-8?b?YWJj?=", "abc"),
            ("=?UTF-8?Q?a?= \t=?UTF-8?Q?_b?= c  =?iso-8859-1?Q?=e9?=", "a b c  é"),
            ("=?UTF-8?Q?a?=,b", "a,b"),
            ("a =?UTF-8?Q?b?= ", "a b "),
            ("=?UTF-8?B?/w==?=", "\u{fffd}"),
        ] {
            assert_eq!(read(sent), text);
        }
        for other in
            ["é", "a=?b", "=?UTF-8?Q?a", "=?UTF-8?Q?=4?=", "=?UTF-8?B?=GGG?=", "=?KOI8-R?Q?=C1?=", "=?UTF-8?X?a?="]
        {
            assert_eq!(read(other), other);
        }
        assert_eq!(decode(b"caf\xe9"), "café".as_bytes());
        assert_eq!(literal(b"caf\xe9 =?UTF-8?Q?a?="), "café =?UTF-8?Q?a?=".as_bytes());
    }

    #[test]
    fn parameters_that_a_header_cannot_show_are_refused() {
        for (sent, shown) in
            [("attachment; filename=\"é\"", "attachment; filename=\"\u{e9}\""), ("", ""), ("a\tb", "a\tb")]
        {
            let bytes: Vec<u8> = shown.chars().map(|character| u8::try_from(character).unwrap()).collect();
            assert_eq!(latin(sent.as_bytes(), "n"), Ok(bytes));
        }
        for bad in ["a–b".as_bytes(), b"a\r\nb", b"\0", b"\x1b", b"\x7f", b"\xe9", "文".as_bytes()] {
            let error = latin(bad, "response-expires").unwrap_err();
            assert_eq!(error, S3Error::argument(error.message.clone(), "response-expires", bad));
            assert_eq!(error.message, "Header value cannot be represented using ISO-8859-1.");
        }
    }

    #[test]
    fn long_texts_are_several_words() {
        for text in ["é".repeat(1024), format!("{}é", "a".repeat(2000))] {
            let words = shown(&text);
            assert!(words.split(' ').count() > 1 && words.split(' ').all(|word| word.len() <= 75), "{words}");
            assert_eq!(read(&words), text);
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_is_printable_and_is_read_back(text in "\\PC{0,80}|[\\x00-\\x7fé—👑]{0,80}") {
            let shown = shown(&text);
            prop_assert!(shown.bytes().all(|byte| matches!(byte, b' '..=b'~' | b'\t')));
            prop_assume!(shown != text || !text.contains("=?"));
            prop_assert_eq!(read(&shown), text);
        }

        #[test]
        fn any_value_is_decoded(value in proptest::collection::vec(any::<u8>(), 0..80), word in "[=?UTF8QB_ a-]{0,30}") {
            prop_assert!(std::str::from_utf8(&decode(&value)).is_ok());
            decode(word.as_bytes());
        }
    }
}
