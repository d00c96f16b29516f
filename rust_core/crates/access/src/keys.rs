//! Keys of conditions: which there are, and which actions of S3 have them.

use crate::actions::bit;

/// The actions whose requests have a key.
enum Of {
    Every,
    Some(&'static [&'static str]),
}

const LISTS: &[&str] = &["ListBucket", "ListBucketMultipartUploads", "ListBucketVersions"];
const PUT: &[&str] = &["PutObject"];
const CREATE_BUCKET: &[&str] = &["CreateBucket"];
const CREATED: &[&str] = &["BypassGovernanceRetention", "PutObject"];
const TAGGED: &[&str] = &["BypassGovernanceRetention", "PutObject", "PutObjectTagging", "PutObjectVersionTagging"];
const GRANTED: &[&str] =
    &["BypassGovernanceRetention", "CreateBucket", "PutBucketAcl", "PutObject", "PutObjectAcl", "PutObjectVersionAcl"];
const ENCRYPTED: &[&str] = &["BypassGovernanceRetention", "PutObject", "ReplicateObject", "UpdateObjectEncryption"];
const RETAINED: &[&str] = &["PutObject", "PutObjectRetention"];

/// The keys of S3 in lower case, in order. Those before a slash are followed by the name of a tag. Lists of uploads have
/// those of lists here, which AWS does not say.
/// <https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazons3.html#amazons3-policy-keys>
#[rustfmt::skip]
const S3_KEYS: &[(&str, Of)] = &[
    ("s3:accessgrantsinstancearn", Of::Every),
    ("s3:accesspointnetworkorigin", Of::Every),
    ("s3:accesspointtag", Of::Every),
    ("s3:authtype", Of::Every),
    ("s3:bucketnamespace", Of::Some(CREATE_BUCKET)),
    ("s3:buckettag", Of::Every),
    ("s3:dataaccesspointaccount", Of::Every),
    ("s3:dataaccesspointarn", Of::Every),
    ("s3:delimiter", Of::Some(LISTS)),
    ("s3:existingobjecttag", Of::Some(&[
        "DeleteObjectAnnotation", "DeleteObjectTagging", "DeleteObjectVersionTagging", "GetObject", "GetObjectAcl",
        "GetObjectAnnotation", "GetObjectAttributes", "GetObjectTagging", "GetObjectVersion", "GetObjectVersionAcl",
        "GetObjectVersionAttributes", "GetObjectVersionTagging", "ListObjectAnnotations", "PutObjectAcl",
        "PutObjectAnnotation", "PutObjectTagging", "PutObjectVersionAcl", "PutObjectVersionTagging",
        "UpdateObjectEncryption",
    ])),
    ("s3:if-match", Of::Some(&["DeleteObject", "PutObject"])),
    ("s3:if-none-match", Of::Some(PUT)),
    ("s3:inventoryaccessibleoptionalfields", Of::Some(&["PutInventoryConfiguration"])),
    ("s3:locationconstraint", Of::Some(CREATE_BUCKET)),
    ("s3:max-keys", Of::Some(LISTS)),
    ("s3:object-lock-legal-hold", Of::Some(&["PutObject", "PutObjectLegalHold"])),
    ("s3:object-lock-mode", Of::Some(RETAINED)),
    ("s3:object-lock-remaining-retention-days", Of::Some(RETAINED)),
    ("s3:object-lock-retain-until-date", Of::Some(RETAINED)),
    ("s3:objectcreationoperation", Of::Some(PUT)),
    ("s3:prefix", Of::Some(LISTS)),
    ("s3:requestobjecttag", Of::Some(TAGGED)),
    ("s3:requestobjecttagkeys", Of::Some(TAGGED)),
    ("s3:resourceaccount", Of::Every),
    ("s3:signatureage", Of::Every),
    ("s3:signatureversion", Of::Every),
    ("s3:tlsversion", Of::Every),
    ("s3:versionid", Of::Some(&[
        "DeleteObjectVersion", "DeleteObjectVersionTagging", "GetObjectVersion", "GetObjectVersionAcl",
        "GetObjectVersionAttributes", "GetObjectVersionForReplication", "GetObjectVersionTagging",
        "GetObjectVersionTorrent", "PutObjectVersionAcl", "PutObjectVersionTagging",
    ])),
    ("s3:x-amz-acl", Of::Some(GRANTED)),
    ("s3:x-amz-bucket-namespace", Of::Some(CREATE_BUCKET)),
    ("s3:x-amz-content-sha256", Of::Every),
    ("s3:x-amz-copy-source", Of::Some(CREATED)),
    ("s3:x-amz-grant-full-control", Of::Some(GRANTED)),
    ("s3:x-amz-grant-read", Of::Some(GRANTED)),
    ("s3:x-amz-grant-read-acp", Of::Some(GRANTED)),
    ("s3:x-amz-grant-write", Of::Some(GRANTED)),
    ("s3:x-amz-grant-write-acp", Of::Some(GRANTED)),
    ("s3:x-amz-metadata-directive", Of::Some(CREATED)),
    ("s3:x-amz-object-annotation-directive", Of::Some(PUT)),
    ("s3:x-amz-object-if-match", Of::Some(&["DeleteObjectAnnotation", "PutObjectAnnotation"])),
    ("s3:x-amz-object-ownership", Of::Some(CREATE_BUCKET)),
    ("s3:x-amz-server-side-encryption", Of::Some(ENCRYPTED)),
    ("s3:x-amz-server-side-encryption-aws-kms-key-id", Of::Some(ENCRYPTED)),
    ("s3:x-amz-server-side-encryption-customer-algorithm", Of::Some(ENCRYPTED)),
    ("s3:x-amz-storage-class", Of::Some(&[
        "BypassGovernanceRetention", "PutObject", "PutObjectAcl", "PutObjectVersionAcl",
    ])),
    ("s3:x-amz-website-redirect-location", Of::Some(CREATED)),
];

/// The keys that requests to every service may have, in lower case, in order, without `aws:`.
/// <https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-keys.html>
#[rustfmt::skip]
const GLOBAL_KEYS: &[&str] = &[
    "assumedroot", "calledvia", "calledviaawsmcp", "calledviafirst", "calledvialast", "chatbotsourcearn", "currenttime",
    "ec2instancesourceprivateipv4", "ec2instancesourcevpc", "epochtime", "federatedprovider", "ismcpserviceaction",
    "multifactorauthage", "multifactorauthpresent", "principalaccount", "principalarn", "principalisawsservice",
    "principalorgid", "principalorgpaths", "principalservicename", "principalservicenameslist", "principaltag",
    "principaltype", "referer", "requestedregion", "requesttag", "resourceaccount", "resourceorgid",
    "resourceorgpaths", "resourcetag", "securetransport", "signinsessionarn", "sourceaccount", "sourcearn",
    "sourceidentity", "sourceip", "sourceorgid", "sourceorgpaths", "sourceowner", "sourcevpc", "sourcevpcarn",
    "sourcevpce", "tagkeys", "tokenissuetime", "useragent", "userid", "username", "viaawsmcpservice", "viaawsservice",
    "vpceaccount", "vpceorgid", "vpceorgpaths", "vpcsourceip",
];

/// What a key is called without the name of a tag after it.
fn stem(key: &str) -> &str {
    key.split_once('/').filter(|(_, tag)| !tag.is_empty()).map_or(key, |(stem, _)| stem)
}

fn of_s3(key: &str) -> Option<&'static Of> {
    let place = S3_KEYS.binary_search_by(|(known, _)| (*known).cmp(stem(key))).ok()?;
    S3_KEYS.get(place).map(|(_, of)| of)
}

/// Whether a bucket's policy may name the key, in lower case: S3 refuses those of S3 that it does not have, and those of
/// other services.
pub(crate) fn is_key_of_s3(key: &str) -> bool {
    key.starts_with("aws:") || of_s3(key).is_some()
}

/// The actions of S3 whose requests have a key, in lower case; `None` if there is no such key.
pub(crate) fn actions_with(key: &str) -> Option<u128> {
    match key.strip_prefix("aws:") {
        Some(global) => GLOBAL_KEYS.binary_search(&stem(global)).ok().map(|_| u128::MAX),
        None => of_s3(key).map(|of| match of {
            Of::Every => u128::MAX,
            Of::Some(names) => names.iter().fold(0, |bits, name| bits | bit(&format!("s3:{name}"))),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_in_order_and_name_actions() {
        assert!(S3_KEYS.is_sorted_by_key(|(key, _)| key) && GLOBAL_KEYS.is_sorted());
        for (key, of) in S3_KEYS {
            if let Of::Some(names) = of {
                for name in *names {
                    assert_ne!(bit(&format!("s3:{name}")), 0, "{key} {name}");
                }
            }
        }
    }
}
