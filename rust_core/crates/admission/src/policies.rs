//! Policies on their way in. One that asks for what Orcas cannot tell yet is refused, rather than applied wrongly.

use orcas_access::{Policy, PolicyKind};

/// Keys of conditions, in lower case, that AWS answers and Orcas does not. Tags of buckets are not among them: they count on
/// AWS only in buckets with ABAC, which Orcas has not.
const UNKNOWN_KEYS: [(&str, &str); 2] = [
    ("s3:inventoryaccessibleoptionalfields", "s3:InventoryAccessibleOptionalFields"),
    ("s3:tlsversion", "s3:TlsVersion"),
];

/// Reads a policy. `bucket`: whose it is, if it is a bucket's.
///
/// # Errors
/// Why it is refused, in the words of AWS where AWS refuses it.
pub fn compile(text: &str, kind: PolicyKind, bucket: Option<&str>) -> Result<Policy, String> {
    let policy = Policy::parse(text, kind, bucket).map_err(|error| error.to_string())?;
    let unknown = |key: &str| UNKNOWN_KEYS.iter().find(|(unknown, _)| key == *unknown);
    let named = policy.keys().find_map(unknown);
    match named {
        Some((_, name)) => Err(format!("The condition key {name} is not supported")),
        None => Ok(policy),
    }
}

/// Compiles a policy that is to be put, which is refused for more: see [`Policy::check_put`].
///
/// # Errors
/// As of [`compile`].
pub fn compile_new(text: &str, kind: PolicyKind, bucket: Option<&str>) -> Result<Policy, String> {
    let policy = compile(text, kind, bucket)?;
    policy.check_put().map_err(|error| error.to_string())?;
    Ok(policy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_told_is_refused() {
        let read = |key: &str| {
            let text = format!(
                r#"{{"Statement": {{"Effect": "Allow", "Action": "*", "Resource": "*", "Condition": {{"Null": {{"{key}": "true"}}}}}}}}"#
            );
            compile(&text, PolicyKind::Identity, None).map(drop)
        };
        assert_eq!(read("s3:prefix"), Ok(()));
        assert_eq!(read("S3:ExistingObjectTag/a"), Ok(()));
        assert_eq!(read("s3:TlsVersion"), Err("The condition key s3:TlsVersion is not supported".into()));
    }
}
