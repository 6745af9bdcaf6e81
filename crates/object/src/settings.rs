//! Settings of a store's client, which take precedence over the environment. Their names are those
//! of `object_store`'s variables. Values never appear in errors or logs, because some are secret.

use std::str::FromStr;

/// Names of the setting for a file of CA certificates. `object_store` has no such setting.
pub(crate) const CA_BUNDLE: [&str; 2] = ["ca_bundle", "aws_ca_bundle"];

/// Names, in lower case, and values.
#[derive(Clone, Default)]
pub(crate) struct StoreSettings(Vec<(String, String)>);

impl StoreSettings {
    pub(crate) fn new(settings: impl IntoIterator<Item = (String, String)>) -> Self {
        let lower = |(name, value): (String, String)| (name.to_ascii_lowercase(), value);
        Self(settings.into_iter().map(lower).collect())
    }

    /// Removes the number of connections, which no client accepts, and returns it if it is a
    /// number.
    pub(crate) fn without_connections(mut self) -> (Self, Option<u32>) {
        let is_it = |(name, value): &(String, String)| {
            (name == "connections").then(|| value.trim().parse().ok()).flatten()
        };
        let found = self.0.iter().filter_map(is_it).next_back();
        self.0.retain(|setting| is_it(setting).is_none());
        (self, found)
    }

    /// Applies the settings to a builder, in order, except [`CA_BUNDLE`].
    ///
    /// # Errors
    ///
    /// If the store has no setting of such a name.
    pub(crate) fn apply<B, K: FromStr<Err = object_store::Error>>(
        &self,
        builder: B,
        set: impl Fn(B, K, &str) -> B,
    ) -> object_store::Result<B> {
        self.iter()
            .filter(|(name, _)| !CA_BUNDLE.contains(name))
            .try_fold(builder, |builder, (name, value)| Ok(set(builder, name.parse()?, value)))
    }

    /// Returns names and values, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }

    /// Returns true if a setting has one of these names.
    pub(crate) fn has(&self, names: &[&str]) -> bool {
        self.0.iter().any(|(name, _)| names.contains(&&**name))
    }

    /// Returns true if the settings select credentials for S3, or none.
    pub(crate) fn have_credentials(&self) -> bool {
        self.has(&["aws_access_key_id", "access_key_id", "aws_skip_signature", "skip_signature"])
    }
}

#[cfg(test)]
mod tests {
    use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};

    use super::*;

    fn applied(settings: &[(&str, &str)]) -> object_store::Result<AmazonS3Builder> {
        let settings = settings.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        let builder = AmazonS3Builder::new().with_region("from the environment");
        StoreSettings::new(settings).apply(builder, |it, key, value| it.with_config(key, value))
    }

    #[test]
    fn the_last_one_of_a_name_counts_and_the_others_stay() {
        let builder = applied(&[("AWS_ENDPOINT_URL", "a"), ("endpoint_url", "b")]).unwrap();
        let value = |key| builder.get_config_value(&key);
        assert_eq!(value(AmazonS3ConfigKey::Endpoint).as_deref(), Some("b"));
        assert_eq!(value(AmazonS3ConfigKey::Region).as_deref(), Some("from the environment"));
    }

    #[test]
    fn the_number_of_connections_is_taken_out_and_what_is_none_is_an_unknown_name() {
        let of = |value: &str| {
            let settings = [("Connections".to_owned(), value.to_owned())];
            let (rest, connections) = StoreSettings::new(settings).without_connections();
            (rest.iter().count(), connections)
        };
        assert_eq!(of("4"), (0, Some(4)));
        assert_eq!(of("few"), (1, None));
    }

    #[test]
    fn an_unknown_name_is_an_error_without_its_value() {
        let error = applied(&[("aws_secret_acess_key", "hush")]).unwrap_err().to_string();
        assert!(error.contains("aws_secret_acess_key") && !error.contains("hush"), "{error}");
    }
}
