//! Whether a client can be built of what the environment and the settings say.
//!
//! In:    the environment variables that the client of a store reads, and settings above them.
//! Out:   the first one that no request can be built of, and what it has to be.
//! Never: its value: some are secret.

use std::ffi::OsString;
use std::str::FromStr;

use object_store::ObjectStoreScheme;
use object_store::aws::AmazonS3ConfigKey;
use object_store::azure::AzureConfigKey;
use object_store::gcp::GoogleConfigKey;
use url::Url;

use crate::settings::StoreSettings;

/// Checks what the client of such a store is built of. `object_store` takes any text, and panics
/// when it makes a request of it.
///
/// # Errors
///
/// Which variable, or which setting, has to be what.
pub(crate) fn check(scheme: &ObjectStoreScheme, settings: &StoreSettings) -> Result<(), String> {
    let variables = std::env::vars_os();
    match scheme {
        ObjectStoreScheme::AmazonS3 => check_all::<AmazonS3ConfigKey>("AWS_", variables, settings),
        ObjectStoreScheme::GoogleCloudStorage => {
            check_all::<GoogleConfigKey>("GOOGLE_", variables, settings)
        }
        ObjectStoreScheme::MicrosoftAzure => {
            check_all::<AzureConfigKey>("AZURE_", variables, settings)
        }
        // Web servers get nothing from the environment.
        ObjectStoreScheme::Http | ObjectStoreScheme::Local | ObjectStoreScheme::Memory | _ => {
            Ok(())
        }
    }
}

/// Checks the settings, and the variables that no setting replaces.
fn check_all<K: FromStr + PartialEq>(
    prefix: &str,
    variables: impl Iterator<Item = (OsString, OsString)>,
    settings: &StoreSettings,
) -> Result<(), String> {
    for (name, value) in settings.iter() {
        check_value(name, value).map_err(|wanted| format!("the setting {name} has to {wanted}"))?;
    }
    let replaced: Vec<K> = settings.iter().filter_map(|(name, _)| name.parse().ok()).collect();
    for (name, value) in variables {
        let (Some(name), Some(value)) = (name.to_str(), value.to_str()) else { continue };
        let lower = name.to_ascii_lowercase();
        let is_read = name.starts_with(prefix)
            && lower.parse::<K>().is_ok_and(|key| !replaced.contains(&key));
        if is_read {
            check_value(&lower, value)
                .map_err(|wanted| format!("the environment variable {name} has to {wanted}"))?;
        }
    }
    Ok(())
}

/// Checks one value; the error is what it has to do.
fn check_value(name: &str, value: &str) -> Result<(), &'static str> {
    let prefixes = ["aws_", "azure_storage_", "azure_", "google_"];
    let name = prefixes.iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name);
    if ENDPOINTS.contains(&name) && !is_endpoint(value) {
        return Err("begin with http:// or https:// and a host, such as https://host:9000, \
                    without spaces or line ends; unset it for the store's own");
    }
    if WORDS.contains(&name) && !value.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("be one word of ASCII letters, without spaces or line ends");
    }
    if SECRETS.contains(&name) && value.chars().any(char::is_control) {
        return Err("be one line without a line end or another control character; its value is \
                    not shown");
    }
    Ok(())
}

/// Whether a request can be built of this and a path. The parser of URLs leaves out line ends, and
/// takes the first part of a path for a host, where that of requests does not.
fn is_endpoint(text: &str) -> bool {
    let rest = ["http://", "https://"].iter().find_map(|scheme| {
        let (begin, rest) = text.split_at_checked(scheme.len())?;
        begin.eq_ignore_ascii_case(scheme).then_some(rest)
    });
    rest.is_some_and(|rest| !rest.starts_with(['/', ':', '?', '#', '@']))
        && text.bytes().all(|it| it.is_ascii_graphic() && !b"<>\"\\^`{|}".contains(&it))
        && Url::parse(text).is_ok_and(|url| url.has_host())
}

/// URLs that requests are sent to.
const ENDPOINTS: [&str; 10] = [
    "endpoint_url",
    "endpoint_url_s3",
    "endpoint_url_sts",
    "endpoint",
    "metadata_endpoint",
    "container_credentials_full_uri",
    "msi_endpoint",
    "identity_endpoint",
    "authority_host",
    "base_url",
];

/// Parts of URLs.
const WORDS: [&str; 5] = ["region", "default_region", "account_name", "tenant_id", "authority_id"];

/// What headers are made of.
const SECRETS: [&str; 14] = [
    "access_key_id",
    "secret_access_key",
    "session_token",
    "token",
    "role_arn",
    "role_session_name",
    "account_key",
    "access_key",
    "master_key",
    "client_id",
    "client_secret",
    "sas_key",
    "sas_token",
    "bearer_token",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn of_aws(variables: &[(&str, &str)], settings: &[(&str, &str)]) -> Result<(), String> {
        let settings = settings.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        let variables = variables.iter().map(|(name, value)| (name.into(), value.into()));
        check_all::<AmazonS3ConfigKey>("AWS_", variables, &StoreSettings::new(settings))
    }

    #[test]
    fn an_endpoint_has_a_scheme_and_a_host() {
        for text in ["http://h", "https://h:9000/", "HTTP://[::1]:1/path", "https://u:p@h"] {
            assert!(is_endpoint(text), "{text}");
        }
        let wrong = [
            "",
            "h:9000",
            "localhost",
            "ftp://h",
            "http://",
            "http:///h",
            "http://:80",
            "http://h\n",
            " http://h",
            "http://h:99999",
            "http:h",
            "http://a b",
            "https://u@",
        ];
        for text in wrong {
            assert!(!is_endpoint(text), "{text:?}");
        }
    }

    #[test]
    fn the_variable_is_named_and_its_value_is_not_shown() {
        for (name, value) in [
            ("AWS_ENDPOINT_URL", "hush:9000"),
            ("AWS_ENDPOINT_URL_S3", "http://"),
            ("AWS_REGION", "hush\n"),
            ("AWS_DEFAULT_REGION", "us east"),
            ("AWS_ACCESS_KEY_ID", "hush\r"),
            ("AWS_SECRET_ACCESS_KEY", "hush\n"),
            ("AWS_SESSION_TOKEN", "hu\u{1b}sh"),
        ] {
            let error = of_aws(&[("AWS_SKIP_SIGNATURE", "true"), (name, value)], &[]).unwrap_err();
            assert!(error.contains(&format!("variable {name} has to ")), "{error}");
            assert!(!error.contains("hush") && !error.contains('\n'), "{error}");
        }
        of_aws(&[("AWS_SECRET_ACCESS_KEY", "a b/+=\u{fc}"), ("AWS_REGION", "auto")], &[]).unwrap();
        // No client reads these.
        of_aws(&[("AWS_PAGER", "\n"), ("AZURE_STORAGE_ENDPOINT", "h")], &[]).unwrap();
    }

    #[test]
    fn a_setting_is_checked_in_place_of_the_variable_that_it_replaces() {
        let variables = [("AWS_ENDPOINT", "h:9000")];
        of_aws(&variables, &[("endpoint_url", "http://h:9000")]).unwrap();
        let error = of_aws(&variables, &[("Endpoint_URL", "other")]).unwrap_err();
        assert!(error.starts_with("the setting endpoint_url has to begin with http://"), "{error}");
    }

    #[test]
    fn other_stores_have_variables_of_their_own() {
        let none = StoreSettings::default();
        let azure = [("AZURE_STORAGE_ENDPOINT", "h")].map(|(a, b)| (a.into(), b.into()));
        let error = check_all::<AzureConfigKey>("AZURE_", azure.into_iter(), &none).unwrap_err();
        assert!(error.contains("AZURE_STORAGE_ENDPOINT"), "{error}");
        let google = [("GOOGLE_BASE_URL", "h")].map(|(a, b)| (a.into(), b.into()));
        let error = check_all::<GoogleConfigKey>("GOOGLE_", google.into_iter(), &none).unwrap_err();
        assert!(error.contains("GOOGLE_BASE_URL"), "{error}");
    }
}
