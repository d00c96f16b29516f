//! Parameters of header values, such as the boundary in Content-Type.

use super::{S3Error, malformed};

/// Characters of the longest boundary that RFC 2046 allows.
const BOUNDARY_LEN_MAX: usize = 70;

/// The delimiter between the parts of a form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boundary {
    /// A line end, two hyphens and the boundary. A line end occurs nowhere else in it.
    delimiter: Vec<u8>,
}

impl Boundary {
    /// Reads the value of a Content-Type.
    ///
    /// Errors: `MalformedPOSTRequest` if there is no boundary, or one that cannot be.
    pub fn parse(content_type: &[u8]) -> Result<Self, S3Error> {
        let parameters = parameters(content_type).ok_or_else(malformed)?;
        let mut values = parameters.into_iter().filter(|(name, _)| name == b"boundary").map(|(_, value)| value);
        match (values.next(), values.next()) {
            (Some(value), None)
                if (1..=BOUNDARY_LEN_MAX).contains(&value.len())
                    && value.iter().all(|byte| matches!(byte, b' '..=b'~'))
                    && value.last() != Some(&b' ') =>
            {
                Ok(Self { delimiter: [b"\r\n--", &value[..]].concat() })
            }
            _ => Err(malformed()),
        }
    }

    /// The line end, the hyphens and the boundary.
    pub fn delimiter(&self) -> &[u8] {
        &self.delimiter
    }
}

/// The parameters after the first semicolon: names in lower case, values without quotes. `None` if they are malformed.
///
/// A backslash escapes a quote only: browsers send paths with backslashes as they are.
pub(super) fn parameters(value: &[u8]) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut found = Vec::new();
    let mut rest = match memchr::memchr(b';', value) {
        Some(at) => &value[at + 1..],
        None => b"",
    };
    loop {
        rest = rest.trim_ascii_start();
        match rest {
            [] => return Some(found),
            [b';', more @ ..] => rest = more,
            _ => {
                let equals = memchr::memchr(b'=', rest)?;
                let name = rest[..equals].trim_ascii().to_ascii_lowercase();
                let (value, after) = match rest[equals + 1..].trim_ascii_start() {
                    [b'"', quoted @ ..] => unquote(quoted)?,
                    plain => {
                        let end = memchr::memchr(b';', plain).unwrap_or(plain.len());
                        (plain[..end].trim_ascii().to_vec(), &plain[end..])
                    }
                };
                found.push((name, value));
                rest = after.trim_ascii_start();
                if !rest.is_empty() && rest[0] != b';' {
                    return None;
                }
            }
        }
    }
}

/// The text up to the closing quote, and what follows that.
fn unquote(quoted: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut value = Vec::new();
    let mut rest = quoted;
    loop {
        match rest {
            [] => return None,
            [b'\\', b'"', more @ ..] => {
                value.push(b'"');
                rest = more;
            }
            [b'"', more @ ..] => return Some((value, more)),
            [byte, more @ ..] => {
                value.push(*byte);
                rest = more;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boundaries() {
        for (sent, boundary) in [
            ("multipart/form-data; boundary=x", Some("x")),
            ("multipart/form-data;charset=utf-8 ; Boundary = \"a b;c\" ", Some("a b;c")),
            ("multipart/form-data; boundary=----WebKitFormBoundaryABC", Some("----WebKitFormBoundaryABC")),
            ("multipart/form-data", None),
            ("multipart/form-data; boundary=", None),
            ("multipart/form-data; boundary=\"a ", None),
            ("multipart/form-data; boundary=\"a \"", None),
            ("multipart/form-data; boundary=\"a\"b", None),
            ("multipart/form-data; boundary=a; boundary=b", None),
            ("multipart/form-data; boundary", None),
            ("multipart/form-data; boundary=\"a\rb\"", None),
        ] {
            let read = Boundary::parse(sent.as_bytes()).ok();
            let expected = boundary.map(|text| format!("\r\n--{text}").into_bytes());
            assert_eq!(read.map(|it| it.delimiter), expected, "{sent}");
        }
        let long = |length: usize| Boundary::parse(format!("m/f; boundary={}", "x".repeat(length)).as_bytes());
        assert!(long(70).is_ok() && long(71).is_err());
    }

    #[test]
    fn names_of_files() {
        for (sent, name) in [
            (r#"form-data; name="file"; filename="C:\dir\a b.txt""#, r"C:\dir\a b.txt"),
            (r#"form-data; name="file"; filename="a\"b.txt""#, r#"a"b.txt"#),
            (r#"form-data; name=file; filename=a.txt"#, "a.txt"),
            (r#"form-data; name=file; filename="""#, ""),
        ] {
            let parameters = parameters(sent.as_bytes()).unwrap();
            assert_eq!(parameters[1], (b"filename".to_vec(), name.as_bytes().to_vec()), "{sent}");
        }
    }
}
