//! Tokens of sessions: a flag byte, then a token as a client sends it, or the claims of one that is sealed with the key of the
//! server. Nothing that anybody else has made opens, and what opens is a session of the one role that there is.
#![cfg_attr(fuzzing, no_main)]

use orcas_checksum::base64_encode;
use orcas_fuzz::{Input, bounded, fuzz_target};
use orcas_gateway::{Identities, IdentityTables};
use orcas_seal::{Secret, seal_message};

const ROLE: &str = "arn:aws:iam::111122223333:role/reader";
const ID: [u8; 8] = [7; 8];
const KEY: [u8; 32] = [1; 32];
/// Allocated bytes for each byte of a token: its bytes, its claims, its policies.
const GROWTH_MAX: usize = 512;
const ANY_MAX: usize = 1024 * 1024;

fn identities() -> Identities {
    let text = str::to_owned;
    let role =
        (text(ROLE), text("role"), text("111122223333"), text("AROA"), text("reader"), Vec::new(), None, Vec::new());
    let rows = IdentityTables {
        accounts: vec![(text("111122223333"), "0a".repeat(32), text("root"))],
        identities: vec![role],
        ..IdentityTables::default()
    };
    Identities::new(rows).expect("valid rows").with_session_keys(vec![(ID, Secret::new(&KEY))])
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let is_sealed = input.u8() % 2 == 1;
    let identities = identities();
    let token = if is_sealed {
        let message = seal_message(&Secret::new(&KEY), [3; 12], b"orcas session token", input.rest());
        base64_encode(&[&[1][..], &ID, &[3; 12], &message].concat()).into_bytes()
    } else {
        input.rest().to_vec()
    };
    let opened = bounded(GROWTH_MAX * token.len() + ANY_MAX, || identities.session(&token, 2000));
    if let Ok(session) = opened {
        assert!(is_sealed, "nobody else has the key");
        assert_eq!(session.requester.identity.principal.identity_arn, ROLE);
        assert!(!session.requester.is_root);
    }
});
