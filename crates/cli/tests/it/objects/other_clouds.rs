//! `gs://` and `az://` by the environment variables of their clients.

use std::fs;
use std::process::Stdio;

use tempfile::TempDir;

use crate::bucket_server::BucketServer;
use crate::common::{Command, scratch};
use crate::images::pattern;
use crate::said;

const LEN: usize = 3_000_000;

/// Runs a command with these variables and no others.
fn run(args: &[&str], variables: &[(&str, &str)]) -> Vec<u8> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_foreread"));
    command.args(args).stdin(Stdio::null()).env_clear();
    let output = command.envs(variables.iter().copied()).output().unwrap();
    assert!(output.status.success(), "{args:?}: {output:?}");
    output.stdout
}

/// The commands of an object and of a prefix, at a server that speaks the store's protocol.
fn reads(scheme: &str, variables: &[(&str, &str)]) {
    let url = |key: &str| format!("{scheme}://bucket/{key}");
    assert!(run(&["cat", &url("a/table")], variables) == pattern(LEN), "{scheme}");
    let stat = said::data(&run(&["stat", &url("a/table"), "--json"], variables));
    assert_eq!(stat[0]["size"], LEN, "{stat:?}");
    let ls = said::data(&run(&["ls", "-R", &url(""), "--json"], variables));
    let names: Vec<_> = ls.iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["a/b/c", "a/table"], "{scheme}");
}

fn server() -> BucketServer {
    let server = BucketServer::start();
    server.put("a/table", &pattern(LEN));
    server.put("a/b/c", &pattern(10));
    server
}

/// A service account's file may name the endpoint, as that of an emulator does.
#[test]
fn an_object_of_googles_store_is_read_by_a_service_account_and_by_a_token() {
    let server = server();
    let endpoint = server.endpoint();
    let folder = TempDir::new_in(scratch()).unwrap();
    let account = folder.path().join("account.json");
    let key = "\"private_key\": \"\", \"private_key_id\": \"\", \"client_email\": \"lab\"";
    let rest = format!("\"disable_oauth\": true, \"gcs_base_url\": \"{endpoint}\"");
    fs::write(&account, format!("{{{key}, {rest}}}")).unwrap();
    let account = account.to_str().unwrap();
    reads("gs", &[("GOOGLE_SERVICE_ACCOUNT", account)]);
    let base = ("GOOGLE_BASE_URL", &*endpoint);
    reads("gs", &[base, ("GOOGLE_SKIP_SIGNATURE", "true")]);
    assert_eq!(server.authorization(), None);
    reads("gs", &[base, ("GOOGLE_BEARER_TOKEN", "lab-token")]);
    assert_eq!(server.authorization().as_deref(), Some("Bearer lab-token"));
}

#[test]
fn an_object_of_azures_store_is_read_by_a_key_and_by_a_token() {
    let server = server();
    let endpoint = server.endpoint();
    let with = |variable, value| {
        let there = [("AZURE_STORAGE_ENDPOINT", &*endpoint), ("AZURE_ALLOW_HTTP", "true")];
        let who = [("AZURE_STORAGE_ACCOUNT_NAME", "lab"), (variable, value)];
        reads("az", &[there, who].concat());
    };
    with("AZURE_STORAGE_ACCOUNT_KEY", "bGFiLWtleQ==");
    let sent = server.authorization().unwrap_or_default();
    assert!(sent.starts_with("SharedKey lab:"), "{sent}");
    with("AZURE_STORAGE_SAS_KEY", "sv=2024-11-04&sig=hush");
    assert_eq!(server.authorization(), None, "the token is part of the query");
}
