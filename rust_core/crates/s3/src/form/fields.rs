//! The fields of a form, up to the beginning of its file.

use std::collections::BTreeMap;

use memchr::memmem::{self, Finder};

use super::parameters::{Boundary, parameters};
use super::{ErrorCode, FORM_DATA_LEN_MAX, S3Error, malformed};

/// The variable that stands for the name of the file.
const FILENAME: &[u8] = b"${filename}";

/// Bytes that the values of all fields may have once the name of the file is filled in.
const FILLED_IN_LEN_MAX: usize = 64 * 1024;

/// Reads what stands before the content of the file.
pub struct FieldsReader {
    boundary: Boundary,
    finder: Finder<'static>,
    /// All that has arrived.
    data: Vec<u8>,
    /// The offset at which the present state begins, and the one from which its end is still to be searched for.
    at: usize,
    searched: usize,
    state: State,
    fields: Vec<(String, Vec<u8>)>,
    filename: Option<Vec<u8>>,
}

enum State {
    Opening,
    /// Behind a delimiter.
    Delimited,
    /// In the head of a part.
    Head,
    /// In the value of the field with this name.
    Value(String),
    /// The file begins.
    File,
}

/// The fields of the head of a part.
struct PartHead {
    name: String,
    filename: Option<Vec<u8>>,
}

impl FieldsReader {
    pub fn new(boundary: Boundary) -> Self {
        let finder = Finder::new(boundary.delimiter()).into_owned();
        let (data, fields) = (Vec::new(), Vec::new());
        Self { boundary, finder, data, at: 0, searched: 0, state: State::Opening, fields, filename: None }
    }

    /// Takes the next bytes of the body. Once the file begins, returns how many of these bytes come before its content.
    ///
    /// Errors: `MalformedPOSTRequest`; `IncorrectNumberOfFilesInPostRequest` for a form that ends without a file;
    /// `MaxPostPreDataLengthExceededError`.
    pub fn push(&mut self, piece: &[u8]) -> Result<Option<usize>, S3Error> {
        let before = self.data.len();
        let now = &piece[..piece.len().min(FORM_DATA_LEN_MAX - before)];
        self.data.extend_from_slice(now);
        while self.step()? {}
        if matches!(self.state, State::File) {
            return Ok(Some(self.at - before));
        }
        if now.len() < piece.len() {
            return Err(S3Error::new(ErrorCode::MaxPostPreDataLengthExceededError)
                .field("MaxPostPreDataLengthBytes", FORM_DATA_LEN_MAX.to_string()));
        }
        Ok(None)
    }

    /// Reads one item. False if it is incomplete, or if the file begins.
    fn step(&mut self) -> Result<bool, S3Error> {
        let rest = &self.data[self.at..];
        match &mut self.state {
            State::Opening => {
                let delimiter = self.boundary.delimiter();
                let openings = [&delimiter[2..], delimiter];
                match openings.iter().find(|opening| rest.starts_with(opening)) {
                    Some(opening) => {
                        self.at = opening.len();
                        self.state = State::Delimited;
                        Ok(true)
                    }
                    None if openings.iter().any(|opening| opening.starts_with(rest)) => Ok(false),
                    None => Err(malformed()),
                }
            }
            State::Delimited => match rest {
                [b' ' | b'\t', ..] => {
                    self.at += 1;
                    Ok(true)
                }
                [b'\r', b'\n', ..] => {
                    self.at += 2;
                    self.searched = self.at;
                    self.state = State::Head;
                    Ok(true)
                }
                [b'-', b'-', ..] => Err(ErrorCode::IncorrectNumberOfFilesInPostRequest.into()),
                [] | [b'\r' | b'-'] => Ok(false),
                _ => Err(malformed()),
            },
            State::Head => {
                let Some(end) = memmem::find(&self.data[self.searched..], b"\r\n\r\n") else {
                    self.searched = self.at.max(self.data.len().saturating_sub(3));
                    return Ok(false);
                };
                let end = self.searched + end;
                let PartHead { name, filename } = PartHead::parse(&self.data[self.at..end])?;
                (self.at, self.searched) = (end + 4, end + 4);
                let is_file = name.eq_ignore_ascii_case("file");
                if is_file {
                    self.filename = filename;
                }
                self.state = if is_file { State::File } else { State::Value(name) };
                Ok(!is_file)
            }
            State::Value(name) => {
                let delimiter = self.finder.needle().len();
                let Some(end) = self.finder.find(&self.data[self.searched..]) else {
                    self.searched = self.at.max(self.data.len().saturating_sub(delimiter - 1));
                    return Ok(false);
                };
                let end = self.searched + end;
                self.fields.push((std::mem::take(name), self.data[self.at..end].to_vec()));
                self.at = end + delimiter;
                self.state = State::Delimited;
                Ok(true)
            }
            State::File => Ok(false),
        }
    }

    /// The form, once its file begins.
    ///
    /// Errors: `MalformedPOSTRequest` before that; `InvalidArgument` for a field that occurs twice.
    pub fn finish(self) -> Result<Form, S3Error> {
        if !matches!(self.state, State::File) {
            return Err(malformed());
        }
        let name = self.filename.as_deref().map(last_of_path);
        let mut fields = BTreeMap::new();
        let mut length = 0;
        for (sent, value) in self.fields {
            let value = name.map_or_else(|| value.clone(), |name| fill_in(&value, name));
            length += value.len();
            if length > FILLED_IN_LEN_MAX {
                return Err(ErrorCode::MaxPostPreDataLengthExceededError.into());
            }
            let lower = sent.to_ascii_lowercase();
            // Such fields are for the page only, and may be any.
            if lower.starts_with("x-ignore-") {
                continue;
            }
            if let Some(Field { sent, .. }) = fields.insert(lower, Field { sent, value }) {
                return Err(S3Error::argument("A field may occur only once", "field", sent.as_bytes()));
            }
        }
        Ok(Form { fields, boundary: self.boundary, length: self.at })
    }
}

impl PartHead {
    fn parse(head: &[u8]) -> Result<Self, S3Error> {
        let mut found = None;
        for line in head.split(|&byte| byte == b'\n') {
            let colon = memchr::memchr(b':', line).ok_or_else(malformed)?;
            if line[..colon].eq_ignore_ascii_case(b"content-disposition") && found.replace(&line[colon + 1..]).is_some()
            {
                return Err(malformed());
            }
        }
        let disposition = found.ok_or_else(malformed)?;
        let kind = disposition.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
        if !kind.eq_ignore_ascii_case(b"form-data") {
            return Err(malformed());
        }
        let (mut name, mut filename, mut encoded) = (None, None, None);
        for (parameter, value) in parameters(disposition).ok_or_else(malformed)? {
            let place = match &parameter[..] {
                b"name" => &mut name,
                b"filename" => &mut filename,
                b"filename*" => &mut encoded,
                _ => continue,
            };
            if place.replace(value).is_some() {
                return Err(malformed());
            }
        }
        let name = name.filter(|name| !name.is_empty()).ok_or_else(malformed)?;
        let name = String::from_utf8(name).map_err(|_| malformed())?;
        Ok(Self { name, filename: filename.or_else(|| decoded(&encoded?)) })
    }
}

/// The value of a parameter in the form of RFC 8187, which some clients use for names that are not ASCII.
fn decoded(value: &[u8]) -> Option<Vec<u8>> {
    let mut parts = value.splitn(3, |&byte| byte == b'\'');
    let (charset, _language, text) = (parts.next()?, parts.next()?, parts.next()?);
    if charset.eq_ignore_ascii_case(b"utf-8") { orcas_http::percent_decode(text) } else { None }
}

/// The part of a path after the last slash or backslash.
fn last_of_path(name: &[u8]) -> &[u8] {
    name.rsplit(|&byte| matches!(byte, b'/' | b'\\')).next().unwrap_or_default()
}

/// `value` with the name of the file in place of its variable.
fn fill_in(value: &[u8], name: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len());
    let mut rest = value;
    while let Some(at) = memmem::find(rest, FILENAME) {
        out.extend_from_slice(&rest[..at]);
        // Enough to be refused for its length.
        if out.len() > FILLED_IN_LEN_MAX {
            return out;
        }
        out.extend_from_slice(name);
        rest = &rest[at + FILENAME.len()..];
    }
    out.extend_from_slice(rest);
    out
}

struct Field {
    /// The name as it was sent.
    sent: String,
    value: Vec<u8>,
}

/// The fields before the file, without those that are to be ignored.
pub struct Form {
    /// Fields by their names in lower case.
    fields: BTreeMap<String, Field>,
    pub boundary: Boundary,
    /// Bytes before the content of the file.
    pub length: usize,
}

impl Form {
    /// The value of the field `name`, which is in lower case.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.fields.get(name).map(|field| &field.value[..])
    }

    /// Names in lower case, names as sent, and values.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str, &[u8])> {
        self.fields.iter().map(|(name, field)| (&name[..], &field.sent[..], &field.value[..]))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn part(disposition: &str, value: &str) -> String {
        format!("--xy\r\nContent-Disposition: form-data; {disposition}\r\n\r\n{value}\r\n")
    }

    /// A form up to the content of its file.
    pub fn body(fields: &[(&str, &str)], filename: &str) -> Vec<u8> {
        let mut body: String = fields.iter().map(|(name, value)| part(&format!("name=\"{name}\""), value)).collect();
        body.push_str("--xy\r\nContent-Type: text/plain\r\n");
        body.push_str(&format!("content-disposition: Form-Data; name=file; filename=\"{filename}\"\r\n\r\n"));
        body.into_bytes()
    }

    pub fn read(pieces: &[&[u8]]) -> Result<(Form, usize), ErrorCode> {
        let mut reader = FieldsReader::new(Boundary::parse(b"multipart/form-data; boundary=xy").unwrap());
        let mut passed = 0;
        for piece in pieces {
            match reader.push(piece).map_err(|error| error.code)? {
                None => passed += piece.len(),
                Some(at) => {
                    let form = reader.finish().map_err(|error| error.code)?;
                    return Ok((form, passed + at));
                }
            }
        }
        Err(reader.finish().map(|_| ()).map_err(|error| error.code).unwrap_err())
    }

    fn fields_of(form: &Form) -> Vec<(&str, &str)> {
        form.iter().map(|(name, _, value)| (name, std::str::from_utf8(value).unwrap())).collect()
    }

    #[test]
    fn fields_are_read_whole_and_byte_by_byte() {
        let all = [("Key", "a/${filename}"), ("empty", ""), ("x-ignore-a", "1"), ("X-Ignore-A", "2"), ("t", "a\r\n-")];
        let head = body(&all, r"C:\dir\f.txt");
        let sent = [&head[..], b"content"].concat();
        let bytes: Vec<&[u8]> = sent.chunks(1).collect();
        for pieces in [vec![&sent[..]], bytes] {
            let (form, at) = read(&pieces).unwrap();
            assert_eq!(fields_of(&form), [("empty", ""), ("key", "a/f.txt"), ("t", "a\r\n-")]);
            assert_eq!((at, form.length), (head.len(), head.len()));
        }
        let led = [b"\r\n", &head[..]].concat();
        assert_eq!(read(&[&led[..1], &led[1..]]).unwrap().1, led.len());
    }

    #[test]
    fn the_name_of_the_file_is_filled_in_if_there_is_one() {
        for (disposition, key) in [
            ("name=\"file\"", "k-${filename}"),
            ("name=\"file\"; filename=\"\"", "k-"),
            ("name=\"FILE\"; filename=\"a/b\"", "k-b"),
            ("name=\"file\"; filename*=UTF-8''%c3%a9", "k-é"),
        ] {
            let sent = part("name=key", "k-${filename}") + &part(disposition, "");
            let (form, _) = read(&[sent.as_bytes()]).unwrap();
            assert_eq!(form.get("key"), Some(key.as_bytes()), "{disposition}");
        }
    }

    #[test]
    fn what_is_no_form_is_refused() {
        use ErrorCode::{IncorrectNumberOfFilesInPostRequest, InvalidArgument, MalformedPOSTRequest};
        let twice = part("name=a", "1") + &part("name=A", "2") + &part("name=file", "");
        for (sent, code) in [
            ("", MalformedPOSTRequest),
            ("preamble\r\n--xy\r\n", MalformedPOSTRequest),
            ("--xz\r\n", MalformedPOSTRequest),
            ("--xyz\r\n", MalformedPOSTRequest),
            ("--xy--\r\n", IncorrectNumberOfFilesInPostRequest),
            (&(part("name=a", "1") + "--xy--"), IncorrectNumberOfFilesInPostRequest),
            ("--xy\r\n\r\n\r\n\r\n", MalformedPOSTRequest),
            (&part("name=\"\"; filename=f", ""), MalformedPOSTRequest),
            ("--xy\r\nno colon\r\n\r\n", MalformedPOSTRequest),
            ("--xy\r\nContent-Type: text/plain\r\n\r\n", MalformedPOSTRequest),
            ("--xy\r\nContent-Disposition: file; name=\"file\"\r\n\r\n", MalformedPOSTRequest),
            (&part("filename=a", ""), MalformedPOSTRequest),
            (&part("name=a; name=b", ""), MalformedPOSTRequest),
            (&part("name=\"a", ""), MalformedPOSTRequest),
            (&part("name=key", "k"), MalformedPOSTRequest),
            (&twice, InvalidArgument),
        ] {
            assert_eq!(read(&[sent.as_bytes()]).err(), Some(code), "{sent:?}");
            let bytes: Vec<&[u8]> = sent.as_bytes().chunks(1).collect();
            assert_eq!(read(&bytes).err(), Some(code), "{sent:?} byte by byte");
        }
    }

    #[test]
    fn what_comes_before_the_file_is_bounded() {
        let of = |length: usize| {
            let rest = body(&[("a", "")], "f").len();
            body(&[("a", &"v".repeat(length - rest))], "f")
        };
        assert_eq!(read(&[&of(FORM_DATA_LEN_MAX)]).unwrap().1, FORM_DATA_LEN_MAX);
        let long = of(FORM_DATA_LEN_MAX + 1);
        let (first, last) = long.split_at(5000);
        for pieces in [vec![&long[..]], vec![first, last]] {
            assert_eq!(read(&pieces).err(), Some(ErrorCode::MaxPostPreDataLengthExceededError));
        }
        let filled = body(&[("a", &"${filename}".repeat(600))], &"n".repeat(200));
        assert_eq!(read(&[&filled]).err(), Some(ErrorCode::MaxPostPreDataLengthExceededError));
    }
}
