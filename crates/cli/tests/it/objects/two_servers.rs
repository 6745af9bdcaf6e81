//! The same reads of two kinds of S3 server: SeaweedFS and rclone.

use std::fs;

use crate::common::{Command, Need, needs, output};
use crate::images::pattern;
use crate::objects::nbd::ObjectServer;
use crate::objects::prefix_mounts::PrefixMount;
use crate::objects::rclone::Rclone;
use crate::objects::weed::{Weed, weed};
use crate::said;

/// A server of one of the kinds.
enum StoreKind {
    Seaweed(Weed),
    Rclone(Rclone),
}

impl StoreKind {
    fn put(&self, key: &str, bytes: &[u8]) -> String {
        match self {
            Self::Seaweed(weed) => weed.put(key, bytes),
            Self::Rclone(rclone) => rclone.put(key, bytes),
        }
    }

    fn foreread(&self, args: &[&str]) -> Command {
        match self {
            Self::Seaweed(weed) => weed.foreread(args),
            Self::Rclone(rclone) => rclone.foreread(args),
        }
    }
}

/// Those that the machine has; of others it was said.
fn kinds(test: &str) -> Vec<StoreKind> {
    let seaweed = weed(test).map(StoreKind::Seaweed);
    let rclone = Rclone::start(test).map(StoreKind::Rclone);
    seaweed.into_iter().chain(rclone).collect()
}

#[test]
fn cat_ls_and_stat_agree_on_both_kinds_of_server() {
    for store in kinds("cat_ls_and_stat_agree_on_both_kinds_of_server") {
        for (name, len) in [("empty", 0), ("a/large", 5_000_001), ("a/b", 4096), ("name+1", 7)] {
            store.put(&format!("both/{name}"), &pattern(len));
        }
        for (name, len) in [("empty", 0), ("a/large", 5_000_001), ("a/b", 4096), ("name+1", 7)] {
            let url = format!("s3://tests/both/{name}");
            let cat = store.foreread(&["cat", &url, "--max-window", "256K"]).output().unwrap();
            assert!(cat.stdout == pattern(len), "{url}: {cat:?}");
            let stat = store.foreread(&["stat", &url, "--json"]).output().unwrap();
            assert_eq!(said::data(&stat.stdout)[0]["size"], len, "{url}");
        }
        let ls = store.foreread(&["ls", "-R", "s3://tests/both/", "--json"]).output().unwrap();
        let rows = said::data(&ls.stdout);
        let names: Vec<_> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["a/b", "a/large", "empty", "name+1"]);
        let ls = store.foreread(&["ls", "s3://tests/both/"]).output().unwrap();
        assert_eq!(String::from_utf8(ls.stdout).unwrap().lines().count(), 3);
        let none = store.foreread(&["cat", "s3://tests/both/none"]).output().unwrap();
        assert_eq!(none.status.code(), Some(2), "{none:?}");
    }
}

#[test]
fn a_prefix_of_both_kinds_of_server_is_a_tree_of_files() {
    let test = "a_prefix_of_both_kinds_of_server_is_a_tree_of_files";
    if !needs(Need::Fuse, test) || !needs(Need::Root, test) {
        return;
    }
    for store in kinds(test) {
        store.put("trees/a/b/file", &pattern(3_000_000));
        store.put("trees/top", &pattern(10));
        let args = ["mount", "s3://tests/trees/", "--no-remember"];
        let mount = PrefixMount::start(&mut store.foreread(&args));
        let found = output(Command::new("find").args([".", "-type", "f"]).current_dir(mount.dir()));
        assert_eq!(found.unwrap().lines().count(), 2);
        assert!(fs::read(mount.dir().join("a/b/file")).unwrap() == pattern(3_000_000));
        assert!(fs::read(mount.dir().join("top")).unwrap() == pattern(10));
        assert_eq!(mount.end(), "");
    }
}

/// rclone does not look at `If-Match`, and answers with the other version.
#[test]
fn an_object_that_is_replaced_fails_its_clients_on_both_kinds_of_server() {
    let test = "an_object_that_is_replaced_fails_its_clients_on_both_kinds_of_server";
    if !needs(Need::Tool("nbdcopy"), test) {
        return;
    }
    for store in kinds(test) {
        let url = store.put("both-replaced", &pattern(9 << 20));
        let server = ObjectServer::of(|args| store.foreread(args), &url, &[]);
        let copy = server.path("copy");
        output(Command::new("nbdcopy").args([&server.uri(), &copy])).unwrap();
        assert!(fs::read(&copy).unwrap() == pattern(9 << 20));
        server.stop();
        let server = ObjectServer::of(|args| store.foreread(args), &url, &[]);
        store.put("both-replaced", &vec![7; 9 << 20]);
        let copied = output(Command::new("nbdcopy").args([&server.uri(), &server.path("other")]));
        assert!(copied.is_err(), "it is another object");
        server.stop();
    }
}
