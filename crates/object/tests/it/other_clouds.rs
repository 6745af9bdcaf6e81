//! `gs://` and `az://`: objects behind the protocols of Google's store and of Azure's.
//!
//! In:    a bucket on this machine that speaks both, as an endpoint of each client.
//! Out:   what a reader gets of it, and what the server was sent.
//! Never: a request that leaves this machine.

mod listings;
mod odd_names;

use crate::bucket_server;

use bucket_server::BucketServer;
use foreread::{Advice, Engine, File};
use foreread_object::{StoreOptions, Stores};

const LEN: usize = (1 << 20) + 77;

fn bytes(version: u8) -> Vec<u8> {
    (0..LEN).map(|at| (at % 251 + at / 4096).to_le_bytes()[0] ^ version).collect()
}

/// A store's scheme, its settings beside the endpoint, and how its credentials are sent.
struct Cloud {
    scheme: &'static str,
    endpoint: &'static str,
    settings: &'static [(&'static str, &'static str)],
    authorization: &'static str,
}

const CLOUDS: [Cloud; 2] = [
    Cloud {
        scheme: "gs",
        endpoint: "google_base_url",
        settings: &[("google_bearer_token", "lab-token")],
        authorization: "Bearer lab-token",
    },
    Cloud {
        scheme: "az",
        endpoint: "azure_storage_endpoint",
        settings: &[
            ("azure_storage_account_name", "lab"),
            ("azure_storage_account_key", "bGFiLWtleQ=="),
            ("azure_allow_http", "true"),
        ],
        authorization: "SharedKey lab:",
    },
];

impl Cloud {
    fn stores(&self, server: &BucketServer) -> Stores {
        let endpoint = server.endpoint();
        let settings = self.settings.iter().copied().chain([(self.endpoint, &*endpoint)]);
        let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Stores::new(StoreOptions::default()).with_settings(settings)
    }

    fn url(&self, key: &str) -> String {
        format!("{}://bucket/{key}", self.scheme)
    }

    fn open(&self, engine: &Engine, stores: &Stores) -> File {
        engine.open_source(stores.open(&self.url("dir/an object")).unwrap()).unwrap()
    }
}

fn engine() -> Engine {
    Engine::builder().memory(4 << 20).build().unwrap()
}

fn read(file: &File, at: usize, len: usize) -> Result<Vec<u8>, String> {
    let mut to = vec![0; len];
    let got = file.read_at(&mut to, at as u64).map_err(|error| error.to_string())?;
    to.truncate(got);
    Ok(to)
}

#[test]
fn an_object_is_read_by_ranges_with_the_credentials_of_its_store() {
    for cloud in CLOUDS {
        let server = BucketServer::start();
        server.put("dir/an object", &bytes(0));
        let (engine, stores) = (engine(), cloud.stores(&server));
        let file = cloud.open(&engine, &stores);
        assert_eq!((file.len(), server.requests()), (LEN as u64, (0, 1, 0)), "{}", cloud.scheme);
        let sent = server.authorization().unwrap_or_default();
        assert!(sent.starts_with(cloud.authorization), "{sent}");
        file.stream().advise(Advice::Random);
        let part = read(&file, 500_000, 10_000).unwrap();
        assert!(part == bytes(0)[500_000..510_000], "{}", cloud.scheme);
        let counts = stores.counters();
        assert!(counts.bytes <= 4 * 4096, "a range, not the object: {counts:?}");
        assert!(read(&file, 0, LEN + 9).unwrap() == bytes(0), "{}", cloud.scheme);
        let all = stores.counters();
        assert_eq!(all.bytes, LEN as u64, "each byte once: {all:?}");
        assert!(read(&file, 0, LEN).unwrap() == bytes(0));
        assert_eq!(stores.counters(), all, "the second time it is in the cache");
        let (_, gets, heads) = server.requests();
        assert_eq!(all.requests, gets + heads);
    }
}

#[test]
fn an_object_that_is_replaced_while_open_is_refused() {
    for cloud in CLOUDS {
        let server = BucketServer::start();
        server.put("dir/an object", &bytes(0));
        let (engine, stores) = (engine(), cloud.stores(&server));
        let file = cloud.open(&engine, &stores);
        file.stream().advise(Advice::Random);
        assert!(read(&file, 0, 4096).unwrap() == bytes(0)[..4096]);
        server.put("dir/an object", &bytes(0x5a));
        let error = read(&file, 800_000, 4096).unwrap_err();
        let named = error.contains(&cloud.url("dir/an object")) && error.lines().count() == 1;
        assert!(named && error.contains("it has changed since it was opened"), "{error}");
        assert!(read(&file, 0, 4096).unwrap() == bytes(0)[..4096], "what is cached stays");
        let again = cloud.open(&engine, &stores);
        assert!(read(&again, 0, LEN).unwrap() == bytes(0x5a), "{}", cloud.scheme);
    }
}

#[test]
fn names_are_listed_in_pages_and_what_is_refused_is_said() {
    for cloud in CLOUDS {
        let server = BucketServer::start();
        for key in ["dir/a", "dir/an object", "dir/below/c", "dir/z", "other"] {
            server.put(key, &bytes(0));
        }
        server.pages_of(2);
        let stores = cloud.stores(&server);
        let prefix = stores.prefix(&cloud.url("dir/")).unwrap();
        let (mut names, mut token) = (Vec::new(), None);
        loop {
            let page = prefix.page("", false, token).unwrap();
            names.extend(page.names.iter().map(|it| (it.name.clone(), it.meta.clone())));
            token = page.next;
            if token.is_none() {
                break;
            }
        }
        names.sort_by(|one, other| one.0.cmp(&other.0));
        let shown: Vec<_> = names.iter().map(|(name, _)| &**name).collect();
        assert_eq!(shown, ["a", "an object", "below/", "z"], "{}", cloud.scheme);
        let size = names[1].1.as_ref().map(|meta| meta.size);
        assert_eq!((size, server.requests().0), (Some(LEN as u64), 2), "{}", cloud.scheme);
        let error = stores.open(&cloud.url("not-there")).unwrap_err().to_string();
        assert!(error.contains("no such object"), "{error}");
        server.refuse(u64::MAX, 403, "AuthenticationFailed");
        let error = stores.open(&cloud.url("other")).unwrap_err().to_string();
        assert!(error.contains("not allowed") && !error.contains("AWS"), "{error}");
    }
}
