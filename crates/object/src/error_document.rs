//! Parses the code in the document that a store sends with an error: XML of S3, Google and Azure,
//! JSON of Google's other interface and of gateways. The status alone is too vague: 403 has a dozen
//! causes.

use std::io::ErrorKind;

/// Returns the code in an error's document: `<Code>SlowDown</Code>`, `"code": "SlowDown"` or
/// `"reason": "rateLimitExceeded"`.
pub(crate) fn code(text: &str) -> Option<&str> {
    let of_xml = text.split_once("<Code>").and_then(|(_, rest)| rest.split_once('<'));
    let is_code = |code: &&str| {
        let is_of = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        (1..=CODE_MAX).contains(&code.len()) && code.bytes().all(is_of)
    };
    if let Some((code, _)) = of_xml {
        return Some(code.trim()).filter(is_code);
    }
    let of_json = |key: &str| {
        let (_, rest) = text.split_once(key)?;
        let rest = rest.trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')?;
        rest.split_once('"').map(|(code, _)| code)
    };
    ["\"Code\"", "\"code\"", "\"reason\"", "\"__type\""]
        .into_iter()
        .find_map(of_json)
        .filter(is_code)
}

/// Meaning of a code that other credentials do not fix.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Refusal {
    /// Cause and remedy.
    pub(crate) advice: &'static str,
    pub(crate) kind: ErrorKind,
}

/// Returns the advice for a code that other credentials do not fix; None for all other codes.
pub(crate) fn refusal(code: &str) -> Option<Refusal> {
    let (advice, kind) = match code {
        "InvalidObjectState" | "ObjectNotInActiveTierError" => (ARCHIVED, DENIED),
        "BlobArchived" => (ARCHIVED_AZURE, DENIED),
        "RestoreAlreadyInProgress" | "BlobBeingRehydrated" => (RESTORING, DENIED),
        "AccountProblem" | "NotSignedUp" | "AccountIsDisabled" | "UserSuspended" => {
            (ACCOUNT, DENIED)
        }
        "accountDisabled" | "userProjectAccountProblem" | "UserProjectAccountProblem" => {
            (ACCOUNT, DENIED)
        }
        "AllAccessDisabled" => (DISABLED, DENIED),
        "NoSuchBucket" | "ContainerNotFound" | "ContainerBeingDeleted" => {
            (NO_BUCKET, ErrorKind::NotFound)
        }
        "InvalidBucketName" | "InvalidResourceName" => (BUCKET_NAME, ErrorKind::InvalidInput),
        "PermanentRedirect" | "TemporaryRedirect" | "AuthorizationHeaderMalformed" => {
            (REGION, ErrorKind::InvalidInput)
        }
        "IllegalLocationConstraintException" | "IncorrectEndpoint" => {
            (REGION, ErrorKind::InvalidInput)
        }
        "UserProjectMissing" | "RequesterPays" => (PAYER, DENIED),
        code if code.starts_with("KMS.") || code.starts_with("Kms") => (KEY, DENIED),
        "ServerSideEncryptionCustomerKeyRequired" | "BlobUsesCustomerSpecifiedEncryption" => {
            (CUSTOMER_KEY, DENIED)
        }
        _ => return None,
    };
    Some(Refusal { advice, kind })
}

const DENIED: ErrorKind = ErrorKind::PermissionDenied;

const ARCHIVED: &str = "the object is in an archive class: restore it (aws s3api restore-object), \
                        or copy it to a class with instant access";
const ARCHIVED_AZURE: &str = "the blob is in the archive tier: rehydrate it (az storage blob \
                              set-tier --tier Hot), which takes hours";
const RESTORING: &str = "the object is being restored from an archive class: wait until it is \
                         complete";
const ACCOUNT: &str = "the store says that the account is disabled or has a problem with billing: \
                       ask its owner";
const DISABLED: &str = "the store has disabled all access to this bucket or object: ask its owner";
const NO_BUCKET: &str = "no such bucket: check its name and the endpoint";
const BUCKET_NAME: &str = "invalid bucket name: check the URL";
const REGION: &str = "the bucket is in another region, or at another endpoint: set AWS_REGION or \
                      AWS_ENDPOINT_URL (foreread doctor URL shows the region)";
const PAYER: &str = "the bucket is requester-pays, which foreread does not support; copy the \
                     object to your own bucket";
const KEY: &str = "the KMS key of the object is disabled or not permitted: check the key and its \
                   policy";
const CUSTOMER_KEY: &str = "the object is encrypted with a customer-provided key (SSE-C), which \
                            foreread does not support; copy the object";

/// Longer than any code of a store.
const CODE_MAX: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_read_from_xml_and_json() {
        for (text, expected) in [
            ("<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>x", Some("SlowDown")),
            ("<Error><Code> KMS.DisabledException </Code>", Some("KMS.DisabledException")),
            (
                "{\"error\": {\"errors\": [{\"reason\": \"rateLimitExceeded\"}]}}",
                Some("rateLimitExceeded"),
            ),
            ("{\"error\":{\"code\":\"BlobArchived\"}}", Some("BlobArchived")),
            ("{\"__type\" : \"ThrottlingException\"}", Some("ThrottlingException")),
            ("<html>no code</html>", None),
            ("<Code></Code>", None),
            ("<Code>two words</Code>", None),
            ("<Code>", None),
        ] {
            assert_eq!(code(text), expected, "{text}");
        }
    }

    /// An archived object was blamed on credentials and on the clock.
    #[test]
    fn codes_that_credentials_do_not_mend_have_advice_without_them() {
        for code in [
            "InvalidObjectState",
            "BlobArchived",
            "RestoreAlreadyInProgress",
            "AccountProblem",
            "AllAccessDisabled",
            "NoSuchBucket",
            "PermanentRedirect",
            "KMS.DisabledException",
            "KMS.KMSInvalidStateException",
            "UserProjectMissing",
        ] {
            let advice = refusal(code).unwrap_or_else(|| panic!("{code}")).advice;
            assert!(!advice.contains("credentials") && !advice.contains("clock"), "{advice}");
        }
        for code in ["AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken"]
        {
            assert_eq!(refusal(code), None, "{code}");
        }
    }
}
