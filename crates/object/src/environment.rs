//! Builds clients from settings, and from the environment variables that no setting overrides.
//! Rejects values of which no request can be built, before `object_store` panics on them.
//!
//! Errors never contain a value, because some are secret. A setting also overrides variables that
//! express the same thing in another way, such as another endpoint or the token of another key.

use std::ffi::OsString;
use std::str::FromStr;

use object_store::ObjectStoreScheme;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use url::Url;

use crate::settings::StoreSettings;

/// Creates the builder of an S3 client, without its bucket.
///
/// # Errors
///
/// If the store has no setting of such a name. The other builders fail alike.
pub(crate) fn s3(settings: &StoreSettings) -> object_store::Result<AmazonS3Builder> {
    let set = |it: AmazonS3Builder, key: AmazonS3ConfigKey, value: &str| it.with_config(key, value);
    built(AmazonS3Builder::new(), "AWS_", std::env::vars_os(), settings, set)
}

/// Creates the builder of a client of Google Cloud Storage.
pub(crate) fn google(settings: &StoreSettings) -> object_store::Result<GoogleCloudStorageBuilder> {
    let set = |it: GoogleCloudStorageBuilder, key: GoogleConfigKey, value: &str| {
        it.with_config(key, value)
    };
    let mut builder = GoogleCloudStorageBuilder::new();
    // This variable has no prefix.
    if let Ok(path) = std::env::var("SERVICE_ACCOUNT")
        && !is_replaced("service_account", settings)
    {
        builder = builder.with_service_account_path(path);
    }
    built(builder, "GOOGLE_", std::env::vars_os(), settings, set)
}

/// Creates the builder of an Azure client.
pub(crate) fn azure(settings: &StoreSettings) -> object_store::Result<MicrosoftAzureBuilder> {
    let set =
        |it: MicrosoftAzureBuilder, key: AzureConfigKey, value: &str| it.with_config(key, value);
    let mut builder = MicrosoftAzureBuilder::new();
    // This variable has no prefix either.
    if let Ok(endpoint) = std::env::var("IDENTITY_ENDPOINT") {
        builder = builder.with_msi_endpoint(endpoint);
    }
    built(builder, "AZURE_", std::env::vars_os(), settings, set)
}

/// Applies the variables that no setting overrides, then the settings.
fn built<B, K: FromStr<Err = object_store::Error>>(
    builder: B,
    prefix: &str,
    variables: impl Iterator<Item = (OsString, OsString)>,
    settings: &StoreSettings,
    set: impl Fn(B, K, &str) -> B,
) -> object_store::Result<B> {
    let builder = variables.fold(builder, |builder, (name, value)| {
        let key = name.to_str().and_then(|name| key_of(name, prefix, settings));
        match key.zip(value.to_str()) {
            Some((key, value)) => set(builder, key, value),
            None => builder,
        }
    });
    settings.apply(builder, set)
}

/// Returns the client's key for this variable; None if the client does not use it, or a setting
/// overrides it.
fn key_of<K: FromStr>(name: &str, prefix: &str, settings: &StoreSettings) -> Option<K> {
    let lower = name.to_ascii_lowercase();
    let is_read = name.starts_with(prefix) && !is_replaced(without_store(&lower), settings);
    if is_read { lower.parse().ok() } else { None }
}

/// Returns true if a setting overrides a variable under another name. Clients rank the variables
/// for one thing by a fixed precedence, not by the order in which they were set.
fn is_replaced(name: &str, settings: &StoreSettings) -> bool {
    let is_said = |said: &[&str]| settings.iter().any(|(it, _)| said.contains(&without_store(it)));
    (SERVICES.contains(&name) && is_said(&SERVICES))
        || ((CREDENTIALS.contains(&name) || WITH_CREDENTIALS.contains(&name))
            && is_said(&CREDENTIALS))
}

/// Strips the prefix of the store from a name.
fn without_store(name: &str) -> &str {
    let prefixes = ["aws_", "azure_storage_", "azure_", "google_"];
    prefixes.iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name)
}

/// Checks the values that a client of this kind of store would use. `object_store` accepts any
/// text, and panics when it builds a request from a bad one.
///
/// # Errors
///
/// Names the variable or setting, and its requirement.
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
        // No environment variables configure web servers.
        ObjectStoreScheme::Http | ObjectStoreScheme::Local | ObjectStoreScheme::Memory | _ => {
            Ok(())
        }
    }
}

/// Checks the settings, and the variables that no setting overrides.
fn check_all<K: FromStr + PartialEq>(
    prefix: &str,
    variables: impl Iterator<Item = (OsString, OsString)>,
    settings: &StoreSettings,
) -> Result<(), String> {
    for (name, value) in settings.iter() {
        check_value(name, value).map_err(|wanted| format!("the setting {name} must {wanted}"))?;
    }
    let replaced: Vec<K> = settings.iter().filter_map(|(name, _)| name.parse().ok()).collect();
    for (name, value) in variables {
        let (Some(name), Some(value)) = (name.to_str(), value.to_str()) else { continue };
        let key: Option<K> = key_of(name, prefix, settings);
        if key.is_some_and(|key| !replaced.contains(&key)) {
            check_value(&name.to_ascii_lowercase(), value)
                .map_err(|wanted| format!("the environment variable {name} must {wanted}"))?;
        }
    }
    Ok(())
}

/// Checks one value; the error is the requirement that it violates.
fn check_value(name: &str, value: &str) -> Result<(), &'static str> {
    let name = without_store(name);
    if ENDPOINTS.contains(&name) && !is_endpoint(value) {
        return Err(
            "begin with http:// or https:// and a host, such as https://host:9000, without \
                    spaces or line ends; unset it to use the store's default",
        );
    }
    if WORDS.contains(&name) && !value.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("be one word of ASCII letters, without spaces or line ends");
    }
    if SECRETS.contains(&name) && value.chars().any(char::is_control) {
        return Err("be a single line without control characters; its value is not shown");
    }
    Ok(())
}

/// Returns true if a request can be built of this text and a path. The URL parser drops line ends
/// and may take the first part of a path for a host; the parser of requests does neither.
fn is_endpoint(text: &str) -> bool {
    let rest = ["http://", "https://"].iter().find_map(|scheme| {
        let (begin, rest) = text.split_at_checked(scheme.len())?;
        begin.eq_ignore_ascii_case(scheme).then_some(rest)
    });
    rest.is_some_and(|rest| !rest.starts_with(['/', ':', '?', '#', '@']))
        && text.bytes().all(|it| it.is_ascii_graphic() && !b"<>\"\\^`{|}".contains(&it))
        && Url::parse(text).is_ok_and(|url| url.has_host())
}

/// Endpoints of objects; the first has precedence.
const SERVICES: [&str; 3] = ["endpoint_url_s3", "endpoint_url", "endpoint"];

/// Settings that select credentials.
const CREDENTIALS: [&str; 14] = [
    "access_key_id",
    "secret_access_key",
    "service_account",
    "service_account_path",
    "service_account_key",
    "application_credentials",
    "account_key",
    "access_key",
    "master_key",
    "sas_key",
    "sas_token",
    "bearer_token",
    "token",
    "client_secret",
];

/// Settings that belong to credentials, or take precedence over some of them.
const WITH_CREDENTIALS: [&str; 6] = [
    "session_token",
    "skip_signature",
    "web_identity_token_file",
    "federated_token_file",
    "use_azure_cli",
    "credential_type",
];

/// URLs of servers that receive requests.
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

/// Parts of headers.
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
            assert!(error.contains(&format!("variable {name} must ")), "{error}");
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
        assert!(error.starts_with("the setting endpoint_url must begin with http://"), "{error}");
    }

    /// The endpoint of a variable was preferred to that of a setting, and the session token of the
    /// environment was sent there with the key of the setting.
    #[test]
    fn a_setting_replaces_all_variables_that_say_the_same() {
        use AmazonS3ConfigKey as Key;

        let variables = [
            ("AWS_ENDPOINT_URL_S3", "http://environment"),
            ("AWS_SESSION_TOKEN", "hush"),
            ("AWS_SKIP_SIGNATURE", "true"),
            ("AWS_REGION", "eu-north-1"),
            ("PATH", "/bin"),
        ];
        let of = |settings: &[(&str, &str)]| {
            let settings = settings.iter().map(|(name, value)| ((*name).into(), (*value).into()));
            let variables = variables.iter().map(|(name, value)| (name.into(), value.into()));
            let set = |it: AmazonS3Builder, key, value: &str| it.with_config(key, value);
            let settings = StoreSettings::new(settings);
            let builder = built(AmazonS3Builder::new(), "AWS_", variables, &settings, set).unwrap();
            [Key::S3Endpoint, Key::Endpoint, Key::Token, Key::SkipSignature, Key::Region]
                .map(|key| builder.get_config_value(&key).unwrap_or_default())
        };
        let (all, there) = ("http://environment", "http://there");
        assert_eq!(of(&[]), [all, "", "hush", "true", "eu-north-1"]);
        assert_eq!(of(&[("aws_region", "us-1")]), [all, "", "hush", "true", "us-1"]);
        let found = of(&[("aws_endpoint_url", there), ("aws_access_key_id", "lab")]);
        assert_eq!(found, ["", there, "", "false", "eu-north-1"]);
        let found = of(&[("access_key_id", "lab"), ("aws_session_token", "new")]);
        assert_eq!(found, [all, "", "new", "false", "eu-north-1"]);
        // Of s3fs, and no credentials.
        assert_eq!(of(&[("aws_skip_signature", "false")])[2..4], ["hush", "false"]);
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
