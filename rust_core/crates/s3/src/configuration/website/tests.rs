//! Documents of websites, and where their rules send requests.

use super::*;

fn parse(content: &str) -> Result<Website, ErrorCode> {
    Website::parse(format!("<{ROOT}>{content}</{ROOT}>").as_bytes()).map_err(|error| error.code)
}

const INDEX: &str = "<IndexDocument><Suffix>index.html</Suffix></IndexDocument>";

fn rule(condition: &str, redirect: &str) -> String {
    let condition = if condition.is_empty() { String::new() } else { format!("<Condition>{condition}</Condition>") };
    format!("<RoutingRule>{condition}<Redirect>{redirect}</Redirect></RoutingRule>")
}

fn ruled(rules: &str) -> Result<Website, ErrorCode> {
    parse(&format!("{INDEX}<RoutingRules>{rules}</RoutingRules>"))
}

fn pages(rules: &str) -> Pages {
    match ruled(rules) {
        Ok(Website::Pages(pages)) => pages,
        other => panic!("{other:?}"),
    }
}

fn asked(key: &str) -> Asked<'_> {
    Asked { key: key.as_bytes(), host: b"site.test:9000", mount: b"" }
}

fn sent(pages: &Pages, key: &str, status: Option<u16>) -> Option<(u16, String)> {
    let found = pages.redirection(&asked(key), status)?;
    Some((found.status, String::from_utf8(found.location).unwrap()))
}

#[test]
fn what_is_stored_is_stored_again_as_it_is() {
    let error = "<ErrorDocument><Key>errors/&lt;404&gt;.html</Key></ErrorDocument>";
    let rules = rule(
        "<KeyPrefixEquals>a&amp;b/</KeyPrefixEquals><HttpErrorCodeReturnedEquals>404</HttpErrorCodeReturnedEquals>",
        "<Protocol>https</Protocol><HostName>h:8</HostName><ReplaceKeyPrefixWith/><HttpRedirectCode>307</HttpRedirectCode>",
    ) + &rule("", "<ReplaceKeyWith>x</ReplaceKeyWith>");
    for content in [
        INDEX.to_owned(),
        format!("{error}{INDEX}<RoutingRules>{rules}</RoutingRules>"),
        "<RedirectAllRequestsTo><Protocol>http</Protocol><HostName>a.b/c</HostName></RedirectAllRequestsTo>".to_owned(),
    ] {
        let site = parse(&content).unwrap();
        let written = site.document();
        assert_eq!(Website::parse(&written), Ok(site));
        assert_eq!(Website::parse(&written).unwrap().document(), written);
    }
}

#[test]
fn documents_that_s3_refuses() {
    let all = "<RedirectAllRequestsTo><HostName>h</HostName></RedirectAllRequestsTo>";
    for (content, expected) in [
        ("", ErrorCode::InvalidArgument),
        ("<Foreign/>", ErrorCode::MalformedXML),
        (&format!("{INDEX}{INDEX}"), ErrorCode::MalformedXML),
        (&format!("{INDEX}{all}"), ErrorCode::InvalidArgument),
        ("<RedirectAllRequestsTo/>", ErrorCode::MalformedXML),
        (&all.replace(">h<", "><"), ErrorCode::InvalidArgument),
        (&all.replace(">h<", ">a\"b<"), ErrorCode::InvalidArgument),
        (&all.replace(">h<", ">/h<"), ErrorCode::InvalidArgument),
        (&all.replace("</Red", "<Protocol>ftp</Protocol></Red"), ErrorCode::InvalidRequest),
        (&INDEX.replace("index.html", ""), ErrorCode::InvalidArgument),
        (&INDEX.replace("index.html", "a/b"), ErrorCode::InvalidArgument),
        (&format!("{INDEX}<ErrorDocument/>"), ErrorCode::InvalidArgument),
        (&format!("{INDEX}<ErrorDocument><Key/></ErrorDocument>"), ErrorCode::InvalidArgument),
    ] {
        assert_eq!(parse(content), Err(expected), "{content}");
    }
}

#[test]
fn rules_that_s3_refuses() {
    let to = "<ReplaceKeyWith>x</ReplaceKeyWith>";
    let error = |code: &str| format!("<HttpErrorCodeReturnedEquals>{code}</HttpErrorCodeReturnedEquals>");
    let code = |code: &str| format!("<HttpRedirectCode>{code}</HttpRedirectCode>");
    for (rules, expected) in [
        (String::new(), ErrorCode::MalformedXML),
        (rule("", ""), ErrorCode::MalformedXML),
        ("<RoutingRule/>".to_owned(), ErrorCode::MalformedXML),
        (rule("", to).replace("<Redirect>", "<Condition/><Redirect>"), ErrorCode::InvalidRequest),
        (rule(&error("4xx"), to), ErrorCode::MalformedXML),
        (rule("", &code("x")), ErrorCode::MalformedXML),
        (rule("", &code("+301")), ErrorCode::MalformedXML),
        (rule("", &format!("{to}<ReplaceKeyPrefixWith>y</ReplaceKeyPrefixWith>")), ErrorCode::InvalidRequest),
        (rule("", "<Protocol>ws</Protocol>"), ErrorCode::InvalidRequest),
        (rule("", &"<ReplaceKeyWith>x</ReplaceKeyWith>".repeat(2)), ErrorCode::MalformedXML),
        (rule("", &format!("<ReplaceKeyWith>{}</ReplaceKeyWith>", "k".repeat(1025))), ErrorCode::KeyTooLongError),
        (rule("", to).repeat(51), ErrorCode::InvalidRequest),
    ] {
        assert_eq!(ruled(&rules), Err(expected), "{rules}");
    }
    assert!(ruled(&rule("", to).repeat(50)).is_ok());
    for bad in ["0", "399", "418", "499", "506", "600", "65536"] {
        assert_eq!(ruled(&rule(&error(bad), to)), Err(ErrorCode::InvalidRequest), "{bad}");
    }
    for bad in ["300", "306", "309", "399", "400", "65836"] {
        assert_eq!(ruled(&rule("", &code(bad))), Err(ErrorCode::InvalidRequest), "{bad}");
    }
    for (status, redirect) in [("400", "301"), ("417", "305"), ("500", "307"), ("505", "308")] {
        assert!(ruled(&rule(&error(status), &code(redirect))).is_ok(), "{status} {redirect}");
    }
}

#[test]
fn keys_become_pages() {
    let pages = pages(&rule("", "<ReplaceKeyWith>x</ReplaceKeyWith>"));
    assert_eq!(pages.page(b""), b"index.html");
    assert_eq!(pages.page(b"a/"), b"a/index.html");
    assert_eq!(pages.page(b"a"), b"a");
    assert_eq!(pages.page_of_directory(b"a").as_deref(), Some(&b"a/index.html"[..]));
    assert_eq!(pages.page_of_directory(b"a/"), None);
    assert_eq!(pages.page_of_directory(b""), None);
}

#[test]
fn the_first_rule_that_applies_decides() {
    let prefix = |prefix: &str| format!("<KeyPrefixEquals>{prefix}</KeyPrefixEquals>");
    let missing = "<HttpErrorCodeReturnedEquals>404</HttpErrorCodeReturnedEquals>";
    let pages = pages(
        &[
            rule(&prefix("docs/"), "<ReplaceKeyPrefixWith>documents/</ReplaceKeyPrefixWith>"),
            rule(&prefix("images/"), "<ReplaceKeyWith>folder gone.html</ReplaceKeyWith>"),
            rule(
                &(prefix("old/") + missing),
                "<HostName>example.org</HostName><HttpRedirectCode>307</HttpRedirectCode>",
            ),
            rule(missing, "<Protocol>https</Protocol><ReplaceKeyPrefixWith>report-404/</ReplaceKeyPrefixWith>"),
        ]
        .concat(),
    );
    let to = |status, location: &str| Some((status, location.to_owned()));
    assert_eq!(sent(&pages, "docs/a b", None), to(301, "/documents/a%20b"));
    assert_eq!(sent(&pages, "images/x.png", None), to(301, "/folder%20gone.html"));
    assert_eq!(sent(&pages, "old/x", None), None);
    assert_eq!(sent(&pages, "old/x", Some(404)), to(307, "//example.org/old/x"));
    assert_eq!(sent(&pages, "x", Some(404)), to(301, "https://site.test:9000/report-404/x"));
    assert_eq!(sent(&pages, "x", Some(403)), None);
}

#[test]
fn the_text_of_a_rule_may_have_a_query_or_a_fragment() {
    let prefix = |prefix: &str| format!("<KeyPrefixEquals>{prefix}</KeyPrefixEquals>");
    let with = |text: &str| format!("<ReplaceKeyPrefixWith>{text}</ReplaceKeyPrefixWith>");
    let pages = pages(
        &[
            rule(&prefix("images/"), &with("prod/resize?key=")),
            rule(&prefix("app/"), &with("#!/")),
            rule(&prefix("odd/"), &with("/a&lt;b&#10;c\\é%41")),
            rule(&prefix("bare/"), &with("")),
        ]
        .concat(),
    );
    let to = |location: &str| Some((301, location.to_owned()));
    assert_eq!(sent(&pages, "images/300x300/a?.png", None), to("/prod/resize?key=300x300/a%3F.png"));
    assert_eq!(sent(&pages, "app/a/b", None), to("/#!/a/b"));
    assert_eq!(sent(&pages, "odd/x", None), to("/%2Fa%3Cb%0Ac%5C%C3%A9%41x"));
    assert_eq!(sent(&pages, "bare//evil.example", None), to("/%2Fevil.example"));
}

#[test]
fn no_key_becomes_a_host_or_a_header() {
    let directory = |key: &str, mount: &'static str| {
        let found = Redirection::to_directory(&Asked { mount: mount.as_bytes(), ..asked(key) });
        assert_eq!(found.status, 302);
        String::from_utf8(found.location).unwrap()
    };
    assert_eq!(directory("a/b", ""), "/a/b/");
    assert_eq!(directory("a", "/s3"), "/s3/a/");
    assert_eq!(directory("/evil.example", ""), "/%2Fevil.example/");
    assert_eq!(directory("\\evil.example", ""), "/%5Cevil.example/");
    assert_eq!(directory("a\r\nset-cookie: x", ""), "/a%0D%0Aset-cookie%3A%20x/");
    assert_eq!(directory("é?#", ""), "/%C3%A9%3F%23/");
    let below = Asked { mount: b"/s3", ..asked("k") };
    assert_eq!(Redirection::of_object(&below, b"/x").location, b"/s3/x");
    assert_eq!(Redirection::of_object(&below, b"https://x").location, b"https://x");
}

#[test]
fn everything_is_sent_elsewhere() {
    let site = |protocol: &str| {
        parse(&format!("<RedirectAllRequestsTo><HostName>h.org/p/</HostName>{protocol}</RedirectAllRequestsTo>"))
    };
    for (protocol, location) in [("", "//h.org/p/a/b"), ("<Protocol>https</Protocol>", "https://h.org/p/a/b")] {
        let Ok(Website::Elsewhere(elsewhere)) = site(protocol) else { panic!("a redirection of everything") };
        let found = elsewhere.redirection(&asked("a/b"));
        assert_eq!((found.status, found.location), (301, location.as_bytes().to_vec()));
    }
}

#[test]
fn pages_of_errors_repeat_nothing_as_markup() {
    let error = S3Error::new(ErrorCode::NoSuchKey).field("Key", "<script>&\"'");
    let page = String::from_utf8(error_page(&error, "ID", "HOST")).unwrap();
    assert!(page.starts_with("<html>\n<head><title>404 Not Found</title></head>"), "{page}");
    assert!(page.contains("<li>Code: NoSuchKey</li>"));
    assert!(page.contains("<li>Key: &lt;script&gt;&amp;&quot;&#39;</li>"));
    assert!(page.contains("<li>RequestId: ID</li>\n<li>HostId: HOST</li>"));
    assert!(!page.contains("<h3>"));
    let headers = error_headers(&error);
    assert_eq!(headers.last(), Some(&("x-amz-error-detail-key", b"%3Cscript%3E%26%22%27".to_vec())));
}

#[test]
fn a_page_says_that_the_error_document_is_missing() {
    let page = String::from_utf8(error_page(&no_page(b"a", Some(b"<e>")), "ID", "HOST")).unwrap();
    let (first, second) = page.split_once("<h3>An Error Occurred").unwrap();
    assert!(first.contains("<li>Key: a</li>\n<li>RequestId: ID</li>\n<li>HostId: HOST</li>\n</ul>\n"), "{page}");
    assert!(second.ends_with("<li>Key: &lt;e&gt;</li>\n</ul>\n<hr/>\n</body>\n</html>\n"), "{page}");
}
