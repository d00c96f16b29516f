//! Which types of content can run scripts when a browser opens them, and the header that takes their origin away.
//!
//! Objects that the path of a URL addresses share the origin of the server, and so of its console. All types count as
//! active but those listed here: what a browser makes of an unknown or malformed type is for it to decide.

/// `Content-Security-Policy` of active content: it runs no scripts, and has an origin of its own.
pub const SANDBOX: &[u8] = b"sandbox";

/// Essences that no browser shows as a document with scripts, besides images, audio and video. The viewer of PDF does
/// not run in a sandbox.
const PASSIVE: [&[u8]; 6] = [
    b"application/octet-stream",
    b"binary/octet-stream",
    b"text/plain",
    b"application/json",
    b"application/pdf",
    b"application/zip",
];

/// Whether a browser may run scripts in content of this type, which is the value of Content-Type.
pub fn is_active(content_type: &[u8]) -> bool {
    // Nearly always one of them as it stands here, which is quick to see.
    if PASSIVE.contains(&content_type) {
        return false;
    }
    let essence = content_type.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    if PASSIVE.iter().any(|passive| essence.eq_ignore_ascii_case(passive)) {
        // Of several types in one line, the last one counts: https://fetch.spec.whatwg.org/#concept-header-extract-mime-type
        return content_type.contains(&b',');
    }
    let is_media = [&b"image/"[..], b"audio/", b"video/"]
        .iter()
        .any(|kind| essence.get(..kind.len()).is_some_and(|start| start.eq_ignore_ascii_case(kind)));
    let subtype = || essence.iter().skip_while(|byte| **byte != b'/').skip(1);
    // SVG and everything else of XML can have scripts.
    let is_xml = || essence.len() >= 4 && essence[essence.len() - 4..].eq_ignore_ascii_case(b"+xml");
    let is_token = || subtype().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(byte));
    !is_media || is_xml() || !is_token() || subtype().next().is_none() || content_type.contains(&b',')
}

#[cfg(test)]
mod tests {
    use super::is_active;

    #[test]
    fn types_that_run_scripts() {
        for active in [
            "text/html",
            "TEXT/HTML; charset=utf-8",
            "application/xhtml+xml",
            "image/svg+xml",
            "Image/SVG+XML;x=y",
            "image/anything+xml",
            "text/xml",
            "application/xml",
            "multipart/x-mixed-replace; boundary=b",
            "text/javascript",
            "",
            "nonsense",
            "image/",
            "image/png/../svg",
            "image/png text/html",
            "*/*",
            "unknown/unknown",
            "image/png, text/html",
            "image/png;a,text/html",
            "text/plain, text/html",
            "application/pdfx",
        ] {
            assert!(is_active(active.as_bytes()), "{active}");
        }
    }

    #[test]
    fn types_that_do_not() {
        for passive in [
            "binary/octet-stream",
            "Application/Octet-Stream",
            "text/plain;charset=utf-8",
            " text/plain ",
            "application/json",
            "application/pdf",
            "application/zip",
            "image/png",
            "IMAGE/JPEG",
            "image/vnd.microsoft.icon",
            "audio/mpeg",
            "video/mp4; codecs=\"avc1\"",
        ] {
            assert!(!is_active(passive.as_bytes()), "{passive}");
        }
    }
}
