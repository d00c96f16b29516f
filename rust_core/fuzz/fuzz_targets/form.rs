//! Forms: cuts, then the body of an upload by a browser, whose boundary is `x`. However the body is cut, the same fields
//! and the same file come out, in bounded memory; and the file is what stands before the first delimiter. The fields
//! `policy` and `expires` are judged as a policy.
#![cfg_attr(fuzzing, no_main)]

use orcas_fuzz::{Input, bounded, fuzz_target};
use orcas_s3::ErrorCode;
use orcas_s3::form::{
    Boundary, FORM_DATA_LEN_MAX, FieldsReader, FileDecoder, FileLimits, Form, Policy, SizeRange, SuccessAction,
    redirection,
};

const DELIMITER: &[u8] = b"\r\n--x";
/// Allocated bytes: copies of what stands before the file, values with the name of the file filled in, and policies.
const GROWTH_MAX: usize = 64;
const ANY_MAX: usize = 1024 * 1024;

/// The form, its file, and where that begins.
type Read = Result<(Form, Vec<u8>, usize), ErrorCode>;

fn read(pieces: &[&[u8]]) -> Read {
    let boundary = Boundary::parse(b"multipart/form-data; boundary=x").expect("a boundary");
    let mut fields = Some(FieldsReader::new(boundary.clone()));
    let (mut file, mut form, mut content, mut begins) = (None, None, Vec::new(), 0);
    for piece in pieces {
        let mut piece = *piece;
        if let Some(mut reader) = fields.take() {
            match reader.push(piece).map_err(|error| error.code)? {
                None => {
                    begins += piece.len();
                    fields = Some(reader);
                    continue;
                }
                Some(taken) => {
                    begins += taken;
                    let read = reader.finish().map_err(|error| error.code)?;
                    assert!(read.length == begins && begins <= FORM_DATA_LEN_MAX);
                    let after_max = (FORM_DATA_LEN_MAX - begins) as u64;
                    file = Some(FileDecoder::new(&boundary, FileLimits { size: SizeRange::ANY, after_max }));
                    form = Some(read);
                    piece = &piece[taken..];
                }
            }
        }
        let decoder = file.as_mut().expect("the file has begun");
        decoder.push(piece, &mut |bytes| content.extend_from_slice(bytes)).map_err(|error| error.code)?;
    }
    let (Some(form), Some(file)) = (form, file) else { return Err(ErrorCode::MalformedPOSTRequest) };
    let size = file.finish().map_err(|error| error.code)?;
    assert_eq!(size, content.len() as u64);
    Ok((form, content, begins))
}

/// The key of a form, what follows an upload, the file, and where that begins.
type Compared<'a> = Result<(Option<Vec<u8>>, SuccessAction, &'a [u8], usize), ErrorCode>;

/// What a form says, in a form that can be compared.
fn told(read: &Read) -> Compared<'_> {
    match read {
        Ok((form, content, begins)) => Ok((form.key().ok(), SuccessAction::of(form), content, *begins)),
        Err(code) => Err(*code),
    }
}

fn judge(form: &Form) {
    let Some(policy) = form.get("policy") else { return };
    let Ok(policy) = Policy::parse(policy) else { return };
    if let Ok(SizeRange { max, .. }) = policy.judge(form, "bucket", 0) {
        assert!(max <= SizeRange::ANY.max);
    }
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let cuts = [input.u8(), input.u8(), input.u8()].map(usize::from);
    let body = input.rest();
    let whole = bounded(GROWTH_MAX * body.len() + ANY_MAX, || read(&[body]));
    if let Ok((form, content, begins)) = &whole {
        let rest = &body[*begins..];
        let ends = rest.windows(DELIMITER.len()).position(|window| window == DELIMITER).expect("a delimiter");
        assert_eq!(&rest[..ends], &content[..]);
        judge(form);
        let _ = form.headers("bucket");
        if let SuccessAction::Redirect(url) = SuccessAction::of(form) {
            let to = redirection(&url, "bucket", &form.key().unwrap_or_default(), b"0f");
            assert!(!to.iter().any(u8::is_ascii_control), "a redirection can be a header");
        }
    }
    let mut pieces = Vec::new();
    let mut rest = body;
    for cut in cuts {
        let (piece, behind) = rest.split_at(cut.min(rest.len()));
        pieces.push(piece);
        rest = behind;
    }
    pieces.push(rest);
    assert_eq!(told(&read(&pieces)), told(&whole), "cut at {cuts:?}");
    let bytes: Vec<&[u8]> = body.chunks(1).collect();
    assert_eq!(told(&read(&bytes)), told(&whole), "byte by byte");
});
