//! `mount --record`: what programs read of a mounted image, as a trace.

use std::fs;

use crate::images::{folder, make};
use crate::mount::mounted::{Mount, can_fuse};
use crate::said::json;

#[test]
fn contents_and_metadata_of_an_image_are_recorded() {
    let test = "contents_and_metadata_of_an_image_are_recorded";
    if !can_fuse(test) {
        return;
    }
    let folder = folder();
    let tree = folder.path().join("tree");
    fs::create_dir_all(&tree).unwrap();
    let large = 2 << 20;
    fs::write(tree.join("large"), vec![7; large]).unwrap();
    fs::write(tree.join("small"), vec![8; 5000]).unwrap();
    let image = make(folder.path(), 16, &["-d", tree.to_str().unwrap()]);
    let trace = folder.path().join("image.frt");
    let flags = ["--record", trace.to_str().unwrap()];
    let mount = Mount::new(&image, &flags);
    assert_eq!(fs::read(mount.dir.join("large")).unwrap().len(), large);
    assert_eq!(fs::read(mount.dir.join("small")).unwrap().len(), 5000);
    let said = mount.end();
    assert!(said.starts_with("foreread: ") && said.contains("image.frt: "), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");

    let trace = trace.to_str().unwrap();
    let summary = &json(&["trace", trace, "--json"])[0];
    let files = summary["files"].as_array().unwrap();
    let named = |end: &str| {
        let is_it = |file: &&serde_json::Value| file["name"].as_str().unwrap().ends_with(end);
        files.iter().find(is_it).unwrap_or_else(|| panic!("{end}: {summary}"))
    };
    let image_name = image.file_name().unwrap().to_str().unwrap();
    assert!(named(image_name)["records"].as_u64().unwrap() > 0, "inodes and directories");
    let contents: Vec<_> =
        files.iter().filter(|file| file["name"].as_str().unwrap().contains(", file ")).collect();
    assert_eq!(contents.len(), 1, "{summary}");
    assert_eq!(contents[0]["bytes"], large);
    let rows = json(&["replay", trace, "--scale", "0", "--memory", "4M", "--json"]);
    assert!(rows[0]["bytes"].as_u64().unwrap() > large as u64);
}
