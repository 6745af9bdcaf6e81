//! Findings about a store, from facts and environment variables, without a request.

use std::net::IpAddr;

use foreread_object::{ObjectError, RangeSupport, StoreExamination};
use foreread_tune::doctor::{Confidence, Finding};

/// Environment variables that select the store.
#[derive(Clone, Debug, Default)]
pub(super) struct Environment {
    pub(super) region: Option<String>,
    /// Variable with its URL.
    pub(super) endpoint: Option<(&'static str, String)>,
    pub(super) has_key: bool,
}

impl Environment {
    pub(super) fn here() -> Self {
        let text = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
        Self {
            region: text("AWS_REGION").or_else(|| text("AWS_DEFAULT_REGION")),
            endpoint: ENDPOINTS.into_iter().find_map(|name| Some((name, text(name)?))),
            has_key: text("AWS_ACCESS_KEY_ID").is_some(),
        }
    }
}

/// Facts about a store with their context.
struct Of<'f> {
    url: &'f str,
    facts: &'f StoreExamination,
    environment: &'f Environment,
}

/// Returns all findings about a store, the most severe first.
pub(super) fn of(url: &str, facts: &StoreExamination, environment: &Environment) -> Vec<Finding> {
    let of = Of { url, facts, environment };
    let found = [
        of.unreachable(),
        of.clock(),
        of.region(),
        of.ranges(),
        of.conditions(),
        of.version(),
        of.connections(),
        of.plaintext(),
    ];
    found.into_iter().flatten().collect()
}

impl Of<'_> {
    fn finding(&self, check: &'static str, what: impl Into<String>, why: &str) -> Finding {
        Finding {
            device: self.url.to_owned(),
            check,
            what: what.into(),
            why: why.to_owned(),
            evidence: Vec::new(),
            mend: Vec::new(),
            confidence: Confidence::Measured,
        }
    }

    fn restore_command(&self) -> Option<String> {
        let (bucket, key) = self.url.split_once("://")?.1.split_once('/')?;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/=".contains(&byte);
        let start = format!("aws s3api restore-object --bucket {bucket} --key {key}");
        // Other names would need quoting in a shell.
        key.bytes().all(is_plain).then(|| format!("{start} --restore-request Days=7"))
    }

    fn is_s3(&self) -> bool {
        self.url.starts_with("s3://") || self.url.starts_with("s3a://")
    }

    fn unreachable(&self) -> Option<Finding> {
        let error = self.facts.error.as_ref()?;
        let mut finding = self.finding(
            "store-unreachable",
            "the object cannot be read",
            "no command can use it before this is mended",
        );
        finding.evidence.push(error.to_string());
        finding.evidence.extend(self.facts.status.map(|status| format!("status {status}")));
        finding.mend = match error {
            ObjectError::NotFound { .. } => {
                let prefix = self.url.rsplit_once('/').map_or(self.url, |(prefix, _)| prefix);
                vec![format!("foreread ls {prefix}/")]
            }
            ObjectError::Denied { .. } | ObjectError::NoCredentials { .. } if self.is_s3() => {
                CREDENTIALS.map(str::to_owned).into()
            }
            // The client requested credentials from the cloud's metadata service.
            ObjectError::Failed { why, .. } if why.contains("no credentials") => {
                CREDENTIALS.map(str::to_owned).into()
            }
            ObjectError::Refused { why, .. } if why.contains("InvalidObjectState") => {
                self.restore_command().into_iter().collect()
            }
            ObjectError::Failed { .. }
            | ObjectError::Unavailable { .. }
            | ObjectError::TimedOut { .. } => {
                let endpoint = self.environment.endpoint.as_ref().map(|(_, url)| url.as_str());
                let endpoint = if self.is_s3() { endpoint } else { Some(self.url) };
                endpoint
                    .map(|endpoint| format!("curl -sv -o /dev/null {endpoint}"))
                    .into_iter()
                    .collect()
            }
            ObjectError::Url { .. }
            | ObjectError::Refused { .. }
            | ObjectError::Denied { .. }
            | ObjectError::NoCredentials { .. }
            | ObjectError::Changed { .. }
            | _ => Vec::new(),
        };
        Some(finding)
    }

    fn clock(&self) -> Option<Finding> {
        let (least, most) = self.facts.clock_ahead_s?;
        let apart = if least > 0.0 { least } else { -most };
        if apart < CLOCK_APART_S {
            return None;
        }
        let side = if least > 0.0 { "behind" } else { "ahead of" };
        let mut finding = self.finding(
            "store-clock",
            format!("this machine's clock is {apart:.0} s {side} that of the store"),
            "S3 refuses requests that were signed more than 15 minutes earlier or later",
        );
        finding.evidence.push(format!("the store's Date is {least:.1} to {most:.1} s ahead"));
        finding.mend.push("timedatectl set-ntp true".to_owned());
        Some(finding)
    }

    fn region(&self) -> Option<Finding> {
        let region = self.facts.region.as_deref().filter(|_| self.is_s3())?;
        let here = self.environment.region.as_deref().unwrap_or(REGION_DEFAULT);
        if here == region {
            return None;
        }
        let mut finding = self.finding(
            "store-region",
            format!("the bucket is in {region}, and requests are signed for {here}"),
            "another region refuses them, or sends each one on",
        );
        finding.evidence.push(format!("x-amz-bucket-region: {region}"));
        finding.mend.push(format!("export AWS_REGION={region}"));
        Some(finding)
    }

    fn ranges(&self) -> Option<Finding> {
        let (what, evidence) = match self.facts.ranges.as_ref()? {
            RangeSupport::Honoured => return None,
            RangeSupport::Ignored(status) => (
                "a request for a range is answered with the whole object",
                format!("status {status} to a request with Range"),
            ),
            RangeSupport::Wrong(how) => {
                ("a request for a range is answered with something else", how.clone())
            }
            _ => return None,
        };
        let why = "foreread reads ranges: the object can be read only if one request has all of it";
        let mut finding = self.finding("store-ranges", what, why);
        finding.evidence.push(evidence);
        if self.url.starts_with("http") {
            finding.mend.push(format!("curl -fO {}", self.url));
        }
        Some(finding)
    }

    fn conditions(&self) -> Option<Finding> {
        let is_ignored = self.facts.refuses_other_version == Some(false);
        let has_tag = self.facts.meta.as_ref().is_some_and(|meta| meta.e_tag.is_some());
        if !is_ignored || !has_tag {
            return None;
        }
        let mut finding = self.finding(
            "store-conditions",
            "the server ignores If-Match",
            "foreread compares the ETag of each response and is safe; clients that rely on the \
             condition may mix two versions of an object that is replaced while they read it",
        );
        finding.evidence.push("a request with the ETag of no version was answered".to_owned());
        Some(finding)
    }

    fn version(&self) -> Option<Finding> {
        let meta = self.facts.meta.as_ref()?;
        if meta.e_tag.is_some() {
            return None;
        }
        let (what, why) = if meta.last_modified.timestamp() == 0 {
            (
                "the server states neither ETag nor Last-Modified",
                "a change of the object would go unnoticed, so foreread refuses it; copy it to a \
                 file",
            )
        } else {
            (
                "the server states no ETag",
                "the date has a resolution of a second: a second change within one goes unnoticed",
            )
        };
        Some(self.finding("store-version", what, why))
    }

    fn connections(&self) -> Option<Finding> {
        if !self.facts.closes_connections {
            return None;
        }
        let mut finding = self.finding(
            "store-connections",
            "the server closes the connection after each response",
            "each request pays for a connection: a round trip, and two more with TLS",
        );
        finding.evidence.push("Connection: close".to_owned());
        Some(finding)
    }

    fn plaintext(&self) -> Option<Finding> {
        let (name, endpoint) = self.environment.endpoint.as_ref().filter(|_| self.is_s3())?;
        let rest = endpoint.strip_prefix("http://")?;
        if is_near(rest.split('/').next().unwrap_or_default()) || !self.environment.has_key {
            return None;
        }
        let mut finding = self.finding(
            "store-plaintext",
            "requests are sent without TLS",
            "what is read, and a session token, can be seen on the way",
        );
        finding.confidence = Confidence::Computed;
        finding.evidence.push(format!("{name}={endpoint}"));
        finding.mend.push(format!("export {name}=https://{rest}"));
        Some(finding)
    }
}

/// Returns true if a host, with its port, is this machine or in a private network.
fn is_near(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    match name.parse::<IpAddr>() {
        Ok(IpAddr::V4(ip)) => ip.is_loopback() || ip.is_private() || ip.is_link_local(),
        Ok(IpAddr::V6(ip)) => {
            ip.is_loopback() || ip.is_unique_local() || ip.is_unicast_link_local()
        }
        Err(_) => name.eq_ignore_ascii_case("localhost"),
    }
}

/// Commands that provide credentials, or disable them.
const CREDENTIALS: [&str; 2] =
    ["export AWS_ACCESS_KEY_ID=.. AWS_SECRET_ACCESS_KEY=..", "export AWS_SKIP_SIGNATURE=true"];

/// Variables with an endpoint; the first that is set counts, as in the client.
const ENDPOINTS: [&str; 3] = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"];

/// Clock skew to report: far below the 15 minutes that stores allow, and above network delays.
const CLOCK_APART_S: f64 = 60.0;

/// Default region of `object_store`.
const REGION_DEFAULT: &str = "us-east-1";

#[cfg(test)]
mod tests {
    use super::*;

    fn checks(url: &str, facts: &StoreExamination, environment: &Environment) -> Vec<&'static str> {
        let found = of(url, facts, environment);
        for finding in &found {
            assert!(!finding.what.is_empty() && !finding.why.is_empty(), "{finding:?}");
            assert!(!finding.evidence.is_empty() || finding.check == "store-version");
        }
        found.iter().map(|finding| finding.check).collect()
    }

    fn facts(change: impl FnOnce(&mut StoreExamination)) -> StoreExamination {
        let mut facts = StoreExamination::default();
        facts.ranges = Some(RangeSupport::Honoured);
        facts.refuses_other_version = Some(true);
        facts.clock_ahead_s = Some((-0.4, 0.7));
        change(&mut facts);
        facts
    }

    #[test]
    fn a_store_that_is_well_has_no_findings() {
        let none = Vec::<&str>::new();
        assert_eq!(checks("s3://b/k", &facts(|_| ()), &Environment::default()), none);
        let near = Environment {
            endpoint: Some(("AWS_ENDPOINT_URL", "http://127.0.0.1:9000".to_owned())),
            has_key: true,
            ..Environment::default()
        };
        assert_eq!(checks("s3://b/k", &facts(|_| ()), &near), none);
    }

    #[test]
    fn a_clock_that_is_a_minute_off_is_found_on_either_side() {
        for (ahead, side) in [((899.0, 900.5), "behind"), ((-901.0, -899.0), "ahead of")] {
            let facts = facts(|facts| facts.clock_ahead_s = Some(ahead));
            let found = of("s3://b/k", &facts, &Environment::default());
            assert_eq!(found[0].check, "store-clock");
            assert!(found[0].what.contains(&format!("899 s {side}")), "{}", found[0].what);
        }
        let near = facts(|facts| facts.clock_ahead_s = Some((-59.0, 30.0)));
        assert!(of("s3://b/k", &near, &Environment::default()).is_empty());
    }

    #[test]
    fn another_region_is_found_with_the_command() {
        let facts = facts(|facts| facts.region = Some("eu-central-1".to_owned()));
        let mut environment = Environment::default();
        let found = of("s3://b/k", &facts, &environment);
        assert_eq!(found[0].mend, ["export AWS_REGION=eu-central-1"]);
        environment.region = Some("eu-central-1".to_owned());
        assert!(of("s3://b/k", &facts, &environment).is_empty());
        assert!(of("https://host/k", &facts, &Environment::default()).is_empty());
    }

    #[test]
    fn ranges_connections_and_plaintext_are_findings() {
        let facts = facts(|facts| {
            facts.ranges = Some(RangeSupport::Ignored(200));
            facts.closes_connections = true;
        });
        let environment = Environment {
            endpoint: Some(("AWS_ENDPOINT", "http://store.example.com:9000".to_owned())),
            has_key: true,
            ..Environment::default()
        };
        let found = checks("s3://b/k", &facts, &environment);
        assert_eq!(found, ["store-ranges", "store-connections", "store-plaintext"]);
        let plaintext = of("s3://b/k", &facts, &environment).remove(2);
        assert_eq!(plaintext.mend, ["export AWS_ENDPOINT=https://store.example.com:9000"]);
    }

    /// Private networks of Docker and others were called far, and every IPv6 address near.
    #[test]
    fn only_this_machine_and_private_networks_are_near() {
        let near = [
            "localhost:9000",
            "127.0.0.1",
            "10.1.2.3:80",
            "172.17.0.2:8333",
            "192.168.1.9",
            "169.254.1.1",
            "[::1]:9000",
            "[fd00::1]",
            "[fe80::1]:80",
        ];
        assert!(near.into_iter().all(is_near));
        let far = [
            "store.example.com:9000",
            "10.example.com",
            "localhost.example.com",
            "172.32.0.1",
            "8.8.8.8:80",
            "[2001:db8::1]:9000",
            "",
        ];
        assert!(!far.into_iter().any(is_near));
    }

    /// The finding had the error of the cloud that was asked for credentials, and no command.
    #[test]
    fn a_store_without_credentials_is_mended_by_some() {
        let (url, why) = ("s3://b/k".to_owned(), "timed out".to_owned());
        let service = "169.254.169.254";
        let none = ObjectError::NoCredentials { url: url.clone(), service, why };
        let why = "cannot connect; there are no credentials in the environment".to_owned();
        for error in [none, ObjectError::Failed { url, range: None, why }] {
            let facts = facts(|facts| facts.error = Some(error));
            let found = of("s3://b/k", &facts, &Environment::default());
            assert_eq!(found[0].mend, CREDENTIALS);
        }
    }

    #[test]
    fn an_object_that_is_not_there_is_looked_for_beside_it() {
        let error = ObjectError::NotFound { url: "s3://b/a/k".to_owned() };
        let facts = facts(|facts| facts.error = Some(error));
        let found = of("s3://b/a/k", &facts, &Environment::default());
        assert_eq!(
            (found[0].check, &*found[0].mend[0]),
            ("store-unreachable", "foreread ls s3://b/a/")
        );
    }
}
