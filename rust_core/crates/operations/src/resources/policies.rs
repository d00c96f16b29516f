//! The checks of a policy before a bucket gets it.

use orcas_access::PolicyKind;
use orcas_admission::access_control::AccessControl;
use orcas_admission::policies::compile_new;
use orcas_admission::senders::identities::Requester;
use orcas_record::Bucket;
use orcas_s3::headers::bucket_arn;
use orcas_s3::{ErrorCode, S3Error};

/// # Errors
/// `MalformedPolicy` in the words of S3, also for principals that do not exist; `AccessDenied` for a policy that allows
/// everybody something, if the public access block of the bucket forbids it.
pub fn check_policy(access: &AccessControl, sender: &Requester, bucket: &Bucket, text: &[u8]) -> Result<(), S3Error> {
    let malformed = |message: String| S3Error::with(ErrorCode::MalformedPolicy, message);
    let text = std::str::from_utf8(text).map_err(|_| malformed("This policy contains invalid Json".to_owned()))?;
    let name = std::str::from_utf8(&bucket.name).unwrap_or_default();
    let policy = compile_new(text, PolicyKind::Resource, Some(name)).map_err(malformed)?;
    let identities = access.identities();
    if !policy.principals().all(|principal| identities.knows(principal)) {
        return Err(malformed("Invalid principal in policy".to_owned()));
    }
    if policy.is_public() && access.public_access_block(bucket.id).blocks_public_policy {
        let message = format!(
            "User: {} is not authorized to perform: s3:PutBucketPolicy on resource: \"{}\" because public policies \
             are prevented by the BlockPublicPolicy setting in S3 Block Public Access{}.",
            sender.identity.principal.arn,
            bucket_arn(name),
            access.blocked_by_operator()
        );
        return Err(S3Error::with(ErrorCode::AccessDenied, message));
    }
    Ok(())
}
