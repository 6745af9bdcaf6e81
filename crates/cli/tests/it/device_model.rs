//! `tune --device-model` and `replay --device FILE`, as a user runs them.

use crate::said;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use said::{foreread, json, refused, stdout};
use tempfile::TempDir;

/// A file in order, then anywhere.
fn trace(folder: &Path) -> String {
    let mut text = String::from("time_us,thread,op,file,offset,length\n");
    for n in 0..200_u64 {
        let _ = writeln!(text, "{},1,r,/data,{},16384", n * 2000, n * 16384);
        let _ = writeln!(text, "{},2,r,/index,{},4096", n * 1500, n * 7919 % 4000 * 4096);
    }
    let path = folder.join("trace.csv");
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

fn written(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    path
}

/// The parameters of `cloud-gp3`, as the simulator's own list has them.
const CLOUD: &str = "[device.mine.model.flash]\ncapacity = '100G'\nmb_per_s = 131.072\n\
    overhead_us = 1000.0\nmax_command = '256K'\nchannels = 3\ndepth = 64\n";

#[test]
fn a_file_with_the_parameters_of_a_known_model_gives_its_figures() {
    let folder = TempDir::new().unwrap();
    let trace = trace(folder.path());
    let file = written(folder.path(), "mine.toml", CLOUD);
    let file = file.to_str().unwrap();
    let policies = ["--policy", "none", "linux-6", "adaptive", "competitive"];
    let args = |device: &[&'static str]| {
        let shared = ["replay", &trace, "--memory", "4M", "--json"].map(str::to_owned);
        let more = policies.iter().chain(device).map(|word| (*word).to_owned());
        shared.into_iter().chain(more).collect::<Vec<_>>()
    };
    let rows = |args: Vec<String>| json(&args.iter().map(String::as_str).collect::<Vec<_>>());
    let known = rows(args(&[]));
    let mut of_file = args(&["--device"]);
    of_file.push(file.to_owned());
    let mut mine = rows(of_file);
    assert_eq!(known.len(), 4);
    assert!(known.iter().all(|row| row["device"] == "cloud-gp3" && row["warm"] == false));
    for row in &mut mine {
        assert_eq!(row["device"], "mine (mine.toml)");
        row["device"] = "cloud-gp3".into();
    }
    assert_eq!(mine, known);
    let text = stdout(&["replay", &trace, "--device", file, "--memory", "4M", "--warm"]);
    let headline = "400 reads, file level, closed loop x 1, on mine (mine.toml), warm cache\n";
    assert!(text.contains(headline), "{text}");
    let page = folder.path().join("page.html");
    let page = page.to_str().unwrap();
    stdout(&["replay", &trace, "--device", file, "--memory", "4M", "--html", page]);
    assert!(fs::read_to_string(page).unwrap().contains("on the model mine (mine.toml)"));
    let over = refused(&["replay", &trace, "--device", file, "--html", file]);
    assert!(over.contains("would replace the device model"), "{over}");
}

#[test]
fn what_tune_measures_in_virtual_time_is_a_device_of_replays_and_scenarios() {
    let folder = TempDir::new().unwrap();
    let trace = trace(folder.path());
    let model = folder.path().join("cloud.toml");
    let model_name = model.to_str().unwrap();
    let tune = [
        "tune",
        "--device",
        "cloud-gp3",
        "--seconds",
        "15",
        "--device-model",
        model_name,
        "--json",
    ];
    let report = json(&tune);
    let written = &report[0]["device_model"];
    assert_eq!((&written["kind"], &written["file"]), (&"flash".into(), &model_name.into()));
    assert!(written["greatest_error"].as_f64().unwrap() < 0.05, "{written}");
    assert_eq!(report[0]["parallel"][0]["at_once"], 1);
    let text = fs::read_to_string(&model).unwrap();
    assert!(text.contains("[device.cloud-gp3.model.flash]\n"), "{text}");

    let waited = |device: &str| {
        let rows = json(&["replay", &trace, "--device", device, "--memory", "4M", "--json"]);
        rows.iter().map(|row| row["waited_s"].as_f64().unwrap()).collect::<Vec<_>>()
    };
    for (fitted, known) in waited(model_name).iter().zip(waited("cloud-gp3")) {
        assert!((fitted / known - 1.0).abs() < 0.05, "{fitted} {known}");
    }
    // The table is a scenario's: it is one with a file and a process behind it.
    let rest = "\n[file.data]\ndevice = 'cloud-gp3'\nsize = '4M'\n\n[[process]]\nname = 'dd'\n\
                run.sequential = { file = 'data', read = '4K' }\n";
    let scenario = folder.path().join("scenario.toml");
    fs::write(&scenario, format!("name = 'mine'\n{text}{rest}")).unwrap();
    stdout(&["sim", scenario.to_str().unwrap()]);

    // An earlier model is replaced; what foreread did not write is not.
    let output = foreread(&tune[..tune.len() - 1]);
    let notes = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && notes.contains("device model: "), "{notes}");
    let theirs = self::written(folder.path(), "theirs.toml", CLOUD);
    let theirs = theirs.to_str().unwrap();
    let into = |path: &str| refused(&["tune", "--device", "sd-card", "--device-model", path]);
    let line = into(theirs);
    assert!(line.contains("--device-model") && line.contains("was not written by"), "{line}");
    assert_eq!(fs::read_to_string(theirs).unwrap(), CLOUD);
    assert!(into("-").contains("give the model a file"));
    // The model of a store was written as one of flash.
    let path = folder.path().join("store.toml");
    let store = ["tune", "--device", "object-store", "--device-model", path.to_str().unwrap()];
    let line = refused(&store);
    assert!(line.contains("object-store is a model of a store, and is one already"), "{line}");
    assert!(line.contains("give tune the URL") && !path.exists(), "{line}");
    assert!(into("/nowhere/model.toml").contains("No such file"));
}

#[test]
fn a_file_that_is_no_model_is_refused_with_its_line_and_key() {
    let folder = TempDir::new().unwrap();
    let trace = trace(folder.path());
    let with = |device: &str| refused(&["replay", &trace, "--device", device]);
    let of = |text: &str| with(written(folder.path(), "m.toml", text).to_str().unwrap());
    for (text, part) in [
        (CLOUD.replace("131.072", "-3"), "line 3: mb_per_s: must be 0.001 to 1000000"),
        (CLOUD.replace("channels", "chanels"), "line 6: unknown field `chanels`"),
        (CLOUD.replace("'256K'", "'256Q'"), "line 5:"),
        (CLOUD.replace("'256K'", "1000"), "line 5: max_command: must be a positive multiple of 4K"),
        (CLOUD.replace("[device.mine.model.flash]", "[flash]"), "line 1: unknown field `flash`"),
        (CLOUD.replace("[device.mine.model.flash]", "[device.mine.model.tape]"), "line 1: unknown"),
        (format!("{CLOUD}[device.other]\nmodel = 'sd-card'\n"), "expected one table [device.NAME]"),
        (format!("{CLOUD}mb_per_s = 3\n"), "line 8: duplicate key"),
        (String::new(), "missing field `device`"),
        ("\u{1}".to_owned(), "line 1"),
        ("#".repeat(70_000), "is longer than a device model is"),
    ] {
        let line = of(&text);
        assert!(line.contains(part) && line.contains("--device "), "{part}: {line}");
        assert!(line.contains("m.toml"), "{line}");
    }
    assert!(with("/nowhere/m.toml").contains("/nowhere/m.toml: No such file"));
    assert!(with("./").contains("Is a directory"));
    let unknown = with("sdx");
    assert!(unknown.contains("possible values") && unknown.contains("cloud-gp3"), "{unknown}");
    fs::write(folder.path().join("b.toml"), [0xff, 0xfe]).unwrap();
    let line = with(folder.path().join("b.toml").to_str().unwrap());
    assert!(line.contains("UTF-8"), "{line}");
}

#[test]
fn counts_of_caches_have_no_device_and_no_loop() {
    let folder = TempDir::new().unwrap();
    let trace = trace(folder.path());
    let pairs: [&[&str]; 8] = [
        &["--device", "sd-card"],
        &["--loop", "open"],
        &["--scale", "1"],
        &["--max-window", "128K"],
        &["--policy", "none"],
        &["--eviction", "lru"],
        &["--warm"],
        &["--real", "/tmp"],
    ];
    for flags in pairs {
        let line = refused(&[&["replay", &trace, "--cache", "lru"][..], flags].concat());
        let says = line.contains("cannot be used with") && line.contains(flags[0]);
        assert!(says && line.contains("--cache"), "{flags:?}: {line}");
    }
}
