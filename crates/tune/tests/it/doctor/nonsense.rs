//! Attributes that hold nonsense: nothing of it makes doctor panic.
//!
//! In:    the trees, with some of their files missing, replaced or filled with other values.
//! Out:   an examination whose findings are counted right.
//! Never: a claim about what is found.

use foreread_tune::doctor::{ExaminationInput, examine};
use foreread_tune::sysfs::SystemRoot;
use proptest::prelude::*;

use super::tree::{TREES, tree};

/// What an attribute may hold instead of what belongs there.
fn nonsense() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        Just("-1".to_owned()),
        Just("0".to_owned()),
        Just("1".to_owned()),
        Just("3".to_owned()),
        Just("18446744073709551615".to_owned()),
        Just("99999999999999999999999".to_owned()),
        Just("[".to_owned()),
        Just("[] [none".to_owned()),
        Just("8:0:0".to_owned()),
        Just("\u{0}\u{1b}[31m".to_owned()),
        "\\PC{0,40}",
        any::<u64>().prop_map(|number| number.to_string()),
        (0_u32..64).prop_map(|shift| (1_u64 << shift).to_string()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_attribute_can_make_it_panic(
        name in prop::sample::select(&TREES[..]),
        changes in prop::collection::vec((any::<prop::sample::Index>(), nonsense()), 1..12),
    ) {
        let root = tree(name);
        let mut files = Vec::new();
        collect(root.path(), &mut files);
        files.sort();
        for (index, value) in changes {
            let file = index.get(&files);
            // Gone, a folder instead of a file, not text, or another value.
            match value.as_str() {
                "" => drop(std::fs::remove_file(file)),
                "0" => {
                    drop(std::fs::remove_file(file));
                    drop(std::fs::create_dir(file));
                }
                "3" => drop(std::fs::write(file, [0xff, 0xfe, 0x00])),
                text => drop(std::fs::write(file, text)),
            }
        }
        let examination = examine(&SystemRoot::at(root.path()), &ExaminationInput::default());
        for finding in &examination.findings {
            prop_assert!(!finding.what.is_empty());
        }
        let counted: usize = examination.devices.iter().map(|device| device.findings).sum();
        prop_assert_eq!(counted, examination.findings.len());
    }
}

fn collect(folder: &std::path::Path, files: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry"))
    {
        if entry.path().is_dir() {
            collect(&entry.path(), files);
        } else {
            files.push(entry.path());
        }
    }
}
