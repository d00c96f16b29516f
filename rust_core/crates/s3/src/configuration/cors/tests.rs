//! Documents, and rules applied to requests.

use super::*;

fn parse(rules: &str) -> Result<CorsConfiguration, S3Error> {
    CorsConfiguration::parse(format!("<CORSConfiguration>{rules}</CORSConfiguration>").as_bytes())
}

fn rule(origin: &str, method: &str, more: &str) -> String {
    format!("<CORSRule><AllowedOrigin>{origin}</AllowedOrigin><AllowedMethod>{method}</AllowedMethod>{more}</CORSRule>")
}

/// The lines that a request gets, without `Vary`.
fn answer(cors: &CorsConfiguration, origin: &str, method: &str, headers: Option<&str>) -> Option<Vec<String>> {
    let asked =
        CrossOrigin { origin: origin.as_bytes(), method: method.as_bytes(), headers: headers.map(str::as_bytes) };
    let mut lines = cors.lines(&asked)?;
    assert_eq!(lines.pop(), Some(("vary", VARY.as_bytes().to_vec())));
    let shown = |(name, value): (&str, Vec<u8>)| format!("{name}: {}", String::from_utf8(value).unwrap());
    Some(lines.into_iter().map(shown).collect())
}

#[test]
fn origins_match_with_one_wildcard() {
    for (pattern, origin, fits) in [
        ("*suffix", "foo.suffix", true),
        ("*suffix", "foo.suffix.get", false),
        ("start*end", "startend", true),
        ("start*end", "start12end", true),
        ("start*end", "0start12end", false),
        ("prefix*", "prefix.suffix", true),
        ("prefix*", "bla.prefix", false),
        ("aba*aba", "aba", false),
        ("http://a", "http://a", true),
        ("http://a", "HTTP://A", false),
        ("*", "http://a", true),
        ("*", "a b", false),
        ("*", "a\u{e9}", false),
    ] {
        let cors = parse(&rule(pattern, "GET", "")).unwrap();
        assert_eq!(answer(&cors, origin, "GET", None).is_some(), fits, "{pattern} {origin}");
    }
}

#[test]
fn the_first_rule_that_allows_all_of_it_answers() {
    let cors = parse(
        &(rule("http://a", "GET", "<MaxAgeSeconds>30</MaxAgeSeconds>")
            + &rule(
                "http://a",
                "PUT",
                "<AllowedMethod>GET</AllowedMethod><AllowedHeader>X-Amz-*</AllowedHeader>\
                 <ExposeHeader>ETag</ExposeHeader><ExposeHeader>x-b</ExposeHeader>",
            )
            + &rule("*", "DELETE", "<AllowedHeader>*</AllowedHeader>")),
    )
    .unwrap();
    let named = ["access-control-allow-origin: http://a", "access-control-allow-credentials: true"];
    let expected = |more: &[&str]| Some([&named[..], more].concat().into_iter().map(str::to_owned).collect::<Vec<_>>());
    assert_eq!(
        answer(&cors, "http://a", "GET", None),
        expected(&["access-control-allow-methods: GET", "access-control-max-age: 30"])
    );
    assert_eq!(
        answer(&cors, "http://a", "GET", Some("x-AMZ-date,  x-amz-meta-b")),
        expected(&[
            "access-control-allow-methods: PUT, GET",
            "access-control-allow-headers: x-amz-date, x-amz-meta-b",
            "access-control-expose-headers: ETag, x-b",
        ])
    );
    let everybody = ["access-control-allow-origin: *", "access-control-allow-methods: DELETE"].map(str::to_owned);
    assert_eq!(answer(&cors, "http://b", "DELETE", None), Some(everybody.to_vec()));
    assert_eq!(answer(&cors, "http://a", "PUT", Some("x-other")), None);
    assert_eq!(answer(&cors, "http://b", "GET", None), None);
    assert_eq!(answer(&cors, "http://a", "DELETE", Some("a b")), None);
    let many = "a,".repeat(ASKED_HEADERS_MAX);
    assert!(answer(&cors, "http://a", "DELETE", Some(&many)).is_some());
    assert_eq!(answer(&cors, "http://a", "DELETE", Some(&(many + "a"))), None);
}

#[test]
fn a_preflight_names_its_origin_and_method() {
    let ask = |headers: &[(&[u8], &[u8])]| {
        let asked = CrossOrigin::of_preflight(&Headers::new(headers)).map(|asked| asked.method.to_vec());
        asked.map_err(|error| (error.code, error.message.into_owned()))
    };
    let bad = |message: &str| Err((ErrorCode::BadRequest, message.to_owned()));
    assert_eq!(ask(&[]), bad("Insufficient information. Origin request header needed."));
    assert_eq!(ask(&[(b"origin", b"a")]), bad("Invalid Access-Control-Request-Method: null"));
    let method = |method: &'static [u8]| ask(&[(b"origin", b"a"), (b"access-control-request-method", method)]);
    assert_eq!(method(b"PATCH"), bad("Invalid Access-Control-Request-Method: PATCH"));
    assert_eq!(method(b"PUT"), Ok(b"PUT".to_vec()));
    assert_eq!(ask(&[(b"origin", b" ")]), bad("Insufficient information. Origin request header needed."));
    let names = |names: &'static [u8]| {
        let lines: [(&[u8], &[u8]); 3] =
            [(b"origin", b"a"), (b"access-control-request-method", b"PUT"), (b"access-control-request-headers", names)];
        ask(&lines)
    };
    assert_eq!(names(b"x-a, X-B,,"), Ok(b"PUT".to_vec()));
    for (sent, shown) in [("x-a, b c", " b c"), ("x(a)", "x(a)"), ("a,Ł", "Ł"), ("x:y", "x:y")] {
        let message = format!("Access-Control-Request-Headers \"{shown}\" contains invalid character.");
        assert_eq!(names(sent.as_bytes()), bad(&message));
    }
}

#[test]
fn documents_are_checked_as_s3_does() {
    let refused = |rules: &str| parse(rules).map_err(|error| (error.code, error.message.into_owned())).unwrap_err();
    let invalid = |message: &str| (ErrorCode::InvalidRequest, message.to_owned());
    assert_eq!(
        refused(&rule("http://*.*", "GET", "")),
        invalid("AllowedOrigin \"http://*.*\" can not have more than one wildcard.")
    );
    assert_eq!(
        refused(&rule("*", "GET", "<AllowedHeader>*-*</AllowedHeader>")),
        invalid("AllowedHeader \"*-*\" can not have more than one wildcard.")
    );
    assert_eq!(
        refused(&rule("*", "PATCH", "")),
        invalid("Found unsupported HTTP method in CORS config. Unsupported method is PATCH")
    );
    assert_eq!(
        refused(&rule("*", "GET", "<ExposeHeader>x-*</ExposeHeader>")),
        invalid("ExposeHeader \"x-*\" contains wildcard. We currently do not support wildcard for ExposeHeader.")
    );
    assert_eq!(
        refused(&rule("*", "GET", "<ExposeHeader>a b</ExposeHeader>")),
        invalid("ExposeHeader \"a b\" contains invalid character.")
    );
    assert_eq!(
        refused(&rule("*", "GET", "").repeat(101)),
        invalid("The number of CORS rules should not exceed allowed limit of 100 rules.")
    );
    assert_eq!(refused(&rule("*", "GET", &format!("<ID>{}</ID>", "i".repeat(256)))).0, ErrorCode::InvalidRequest);
    for malformed in [
        String::new(),
        "<CORSRule/>".into(),
        "<CORSRule><AllowedMethod>GET</AllowedMethod></CORSRule>".into(),
        "<CORSRule><AllowedOrigin>*</AllowedOrigin></CORSRule>".into(),
        "<Rule/>".into(),
        rule("*", "GET", "<AllowedHeader/>"),
        rule("*", "GET", "<Other/>"),
        rule("*", "GET", "<ID>a</ID><ID>b</ID>"),
        rule("*", "GET", "<MaxAgeSeconds>soon</MaxAgeSeconds>"),
        rule("*", "GET", "<MaxAgeSeconds>2147483648</MaxAgeSeconds>"),
    ] {
        assert_eq!(refused(&malformed).0, ErrorCode::MalformedXML, "{malformed}");
    }
}

#[test]
fn a_configuration_comes_back_as_it_was() {
    let all = rule("http://a", "GET", "<ID>one &amp; only</ID><AllowedHeader>*</AllowedHeader>")
        + &rule("", "GET", "")
        + &rule("*", "HEAD", "<MaxAgeSeconds>-100</MaxAgeSeconds>")
        + &rule("*", "PUT", "<ExposeHeader>ETag</ExposeHeader><MaxAgeSeconds>0</MaxAgeSeconds>").repeat(97);
    let cors = parse(&all).unwrap();
    assert_eq!(CorsConfiguration::parse(&cors.document()), Ok(cors));
}
