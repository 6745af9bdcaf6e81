//! qemu-img and qemu-io, over qemu's own NBD driver.

use std::fs;

use crate::common::{Command, Need, needs};
use crate::serve::server::{Place, bytes, printed, refused};

fn qemu_img(args: &[&str]) -> Command {
    let mut command = Command::new("qemu-img");
    command.args(args);
    command
}

/// qemu-io with these commands, of which each must succeed.
fn qemu_io(uri: &str, commands: &[&str]) -> Command {
    let mut command = Command::new("qemu-io");
    command.args(["-f", "raw"]);
    for each in commands {
        command.args(["-c", each]);
    }
    command.arg(uri);
    command
}

#[test]
fn qemu_img_reads_what_the_file_has() {
    if !needs(Need::Tool("qemu-img"), "qemu_img_reads_what_the_file_has") {
        return;
    }
    let place = Place::new();
    let len = 12 << 20;
    let file = place.file("disk", len);
    let hole = fs::File::options().write(true).open(&file).unwrap();
    hole.set_len(4 << 20).unwrap();
    hole.set_len(len as u64).unwrap();
    let server = place.serve(&file, &["--memory", "4M"]);
    let uri = server.uri();
    let info = printed(&mut qemu_img(&["info", "--output=json", &uri]));
    let info: serde_json::Value = serde_json::from_str(&info).unwrap();
    assert_eq!((&info["format"], &info["virtual-size"]), (&"raw".into(), &len.into()));
    let map = printed(&mut qemu_img(&["map", "-f", "raw", "--output=json", &uri]));
    let map: serde_json::Value = serde_json::from_str(&map).unwrap();
    let data: Vec<_> = map.as_array().unwrap().iter().map(|one| &one["data"]).collect();
    assert_eq!(data, [true, false], "{map}");
    let file_name = file.to_str().unwrap();
    printed(&mut qemu_img(&["compare", "-f", "raw", "-F", "raw", file_name, &uri]));
    server.stop();
}

#[test]
fn qemu_img_converts_both_ways() {
    if !needs(Need::Tool("qemu-img"), "qemu_img_converts_both_ways") {
        return;
    }
    let place = Place::new();
    let len = 12 << 20;
    let file = place.file("disk", len);
    let server = place.serve(&file, &["--memory", "4M"]);
    let (uri, image) = (server.uri(), place.path("image.qcow2"));
    let image = image.to_str().unwrap();
    printed(&mut qemu_img(&["convert", "-f", "raw", "-O", "qcow2", &uri, image]));
    printed(&mut qemu_img(&["check", image]));
    server.stop();

    let back = place.path("back");
    fs::write(&back, vec![3; len]).unwrap();
    let server = place.serve(&back, &["--memory", "4M", "--dirty-age", "3600s"]);
    let uri = server.uri();
    printed(&mut qemu_img(&["convert", "-n", "-W", "-f", "qcow2", "-O", "raw", image, &uri]));
    printed(&mut qemu_img(&["compare", "-f", "qcow2", "-F", "raw", image, &uri]));
    // qemu-img flushes at its end.
    server.kill();
    assert!(fs::read(&back).unwrap() == bytes(len));
}

/// An image format with metadata of its own, which is read and written in small pieces.
#[test]
fn an_image_inside_the_export_is_whole() {
    if !needs(Need::Tool("qemu-img"), "an_image_inside_the_export_is_whole") {
        return;
    }
    let place = Place::new();
    let file = place.file("disk", 16 << 20);
    let server = place.serve(&file, &["--memory", "2M"]);
    let uri = server.uri();
    printed(&mut qemu_img(&["create", "-f", "qcow2", &uri, "64M"]));
    let mut io = Command::new("qemu-io");
    io.args(["-f", "qcow2", "-c", "write -P 7 20M 3M", "-c", "write -P 9 60M 64k", "-c", "flush"]);
    printed(io.arg(&uri));
    printed(&mut qemu_img(&["check", "-f", "qcow2", &uri]));
    server.stop();
    let mut io = Command::new("qemu-io");
    io.args(["-r", "-f", "qcow2", "-c", "read -P 7 20M 3M", "-c", "read -P 9 60M 64k"]);
    printed(io.args(["-c", "read -P 0 0 20M"]).arg(&file));
}

#[test]
fn qemu_io_finds_its_patterns_again() {
    if !needs(Need::Tool("qemu-io"), "qemu_io_finds_its_patterns_again") {
        return;
    }
    let place = Place::new();
    let file = place.file("disk", 8 << 20);
    let server = place.serve(&file, &["--memory", "2M"]);
    let uri = server.uri();
    printed(&mut qemu_io(
        &uri,
        &[
            "write -P 1 0 1M",
            "write -P 2 1000 3000",
            "write -f -P 3 2M 64k",
            "write -P 4 3M 4095",
            "aio_write -P 5 4M 512k",
            "aio_write -P 6 5M 512k",
            "aio_flush",
            "aio_read -P 5 4M 512k",
            "aio_read -P 6 5M 512k",
            "aio_flush",
            "read -P 1 0 1000",
            "read -P 2 1000 3000",
            "read -P 1 4000 4k",
            "read -P 3 2M 64k",
            "read -P 4 3M 4095",
            "write -z 512k 128k",
            "read -P 0 512k 128k",
            "write -z -u 600k 100k",
            "read -P 0 600k 100k",
            "discard 4M 256k",
            "read -P 5 4352k 256k",
            "flush",
        ],
    ));
    // A pattern that is not there is found out: the test would be worth nothing otherwise.
    refused(&mut qemu_io(&uri, &["read -P 9 0 512"]));
    server.kill();
    let name = file.to_str().unwrap();
    let after = ["read -P 3 2M 64k", "read -P 2 1000 3000", "read -P 0 512k 128k"];
    printed(&mut qemu_io(name, &after));
}

#[test]
fn qemu_io_cannot_write_what_is_read_only() {
    if !needs(Need::Tool("qemu-io"), "qemu_io_cannot_write_what_is_read_only") {
        return;
    }
    let place = Place::new();
    let file = place.file("disk", 1 << 20);
    let server = place.serve(&file, &["--read-only"]);
    refused(&mut qemu_io(&server.uri(), &["write 0 4k"]));
    printed(Command::new("qemu-io").args(["-r", "-f", "raw", "-c", "read 0 4k"]).arg(server.uri()));
    server.stop();
    assert!(fs::read(&file).unwrap() == bytes(1 << 20));
}
