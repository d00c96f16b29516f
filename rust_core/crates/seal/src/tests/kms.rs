use proptest::prelude::*;

use super::context;
use crate::{EncryptionContext, Error, KeyId, KeyName, KeyReference};

const UUID: &str = "1234abcd-12ab-34cd-56ef-1234567890ab";

#[test]
fn ids_are_uuids() {
    let id = KeyId::parse(UUID).unwrap();
    assert_eq!(id.to_string(), UUID);
    assert_eq!(KeyId::parse(&UUID.to_uppercase()), Some(id));
    assert_eq!(id.arn("us-east-1", "111122223333"), format!("arn:aws:kms:us-east-1:111122223333:key/{UUID}"));
    for wrong in
        ["", "1234abcd12ab34cd56ef1234567890ab", "1234abcd-12ab-34cd-56ef-1234567890a", &UUID.replace('a', "+")]
    {
        assert_eq!(KeyId::parse(wrong), None, "{wrong}");
    }
    let text = KeyId::from_random([0xff; 16]).to_string();
    assert_eq!(text, "ffffffff-ffff-4fff-bfff-ffffffffffff");
}

#[test]
fn requests_name_keys_in_four_ways() {
    let id = Some(KeyReference::Id(KeyId::parse(UUID).unwrap()));
    let name = Some(KeyReference::Name(KeyName::new("teams/a").unwrap()));
    assert_eq!(KeyReference::parse(UUID), id);
    assert_eq!(KeyReference::parse(&format!("arn:aws:kms:eu-west-1:111122223333:key/{UUID}")), id);
    assert_eq!(KeyReference::parse("alias/teams/a"), name);
    assert_eq!(KeyReference::parse("arn:aws:kms:eu-west-1:111122223333:alias/teams/a"), name);
    for wrong in
        ["", "teams/a", "alias/", "alias/a b", "arn:aws:s3:::bucket", "arn:aws:kms:r:a:key/x", "arn:aws:kms:r:a"]
    {
        assert_eq!(KeyReference::parse(wrong), None, "{wrong}");
    }
    // An ARN names a key by `key/` or `alias/`, never by a bare id.
    assert_eq!(KeyReference::parse(&format!("arn:aws:kms:eu-west-1:111122223333:{UUID}")), None);
}

#[test]
fn names_have_bounds() {
    assert!(KeyName::new(&"n".repeat(250)).is_ok());
    for wrong in [String::new(), "n".repeat(251), "a b".into(), "é".into(), "a\0".into()] {
        assert!(matches!(KeyName::new(&wrong), Err(Error::Invalid { .. })), "{wrong}");
    }
}

#[test]
fn contexts_have_bounds() {
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    for wrong in [vec![pair("a", "1"), pair("a", "2")], vec![pair("", "1")], vec![pair("a", &"v".repeat(8192))]] {
        assert!(matches!(EncryptionContext::new(wrong), Err(Error::Invalid { .. })));
    }
    assert_eq!(context(&[("b", "2"), ("a", "1")]), context(&[("a", "1"), ("b", "2")]));
    assert_eq!(context(&[("b", "2"), ("a", "1")]).pairs().collect::<Vec<_>>(), [("a", "1"), ("b", "2")]);
}

proptest! {
    #[test]
    fn different_contexts_are_encoded_differently(
        one in prop::collection::btree_map("[a-c]{1,3}", "[a-c]{0,3}", 0..4),
        two in prop::collection::btree_map("[a-c]{1,3}", "[a-c]{0,3}", 0..4)
    ) {
        let encoded = |pairs: &std::collections::BTreeMap<String, String>| {
            EncryptionContext::new(pairs.clone()).unwrap().encoded()
        };
        prop_assert_eq!(encoded(&one) == encoded(&two), one == two);
    }

    #[test]
    fn any_text_is_a_reference_or_none(text in "(arn:aws:kms:)?[a-f0-9:/-]{0,50}") {
        if let Some(KeyReference::Id(id)) = KeyReference::parse(&text) {
            prop_assert!(text.ends_with(&id.to_string()));
        }
    }
}
