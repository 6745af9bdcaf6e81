//! What `--apply` and `--remember` set, and how it is undone.

use super::*;

/// What was said on stderr.
fn said(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// A run that may have measured a cache sets nothing, and says why and what to do.
fn is_refused_for_its_cache(name: &str, refused: Output, text: &str) {
    assert_eq!(refused.status.code(), Some(1), "{text}");
    for part in [
        &format!("{name}: nothing is set: "),
        "a cache below may have been measured",
        "--direct-io=on",
        "--force sets read_ahead_kb=",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let report = String::from_utf8(refused.stdout).unwrap();
    let first = report.lines().next().unwrap();
    assert!(first.starts_with(&format!("{name}: ")) && first.ends_with('.'), "{first}");
    assert!(first.contains("nothing is set, for the reason at the end"), "{first}");
}

/// A device whose file is cached, which is set from there all the same only with `--force`; and by
/// its bare name, as doctor takes it.
#[test]
fn what_a_cache_gave_is_refused_and_forced_and_undone() {
    const NAME: &str = "what_a_cache_gave_is_refused_and_forced_and_undone";
    if !needs(Need::Root, NAME) || !needs(Need::Loop, NAME) {
        return;
    }
    let disk = Loop::cached(96);
    let name = disk.name.as_str();
    let window = Path::new("/sys/block").join(name).join("queue/read_ahead_kb");
    // What no sweep begins with: it is measured all the same.
    fs::write(&window, "36").unwrap();
    let undone = Remembered(&disk);

    let found = recommended(&[name, "--json"]);
    assert_eq!(found["compared"]["now_kib"], 36);
    let measured = found["sweep"].as_array().unwrap().iter().any(|row| row["window_kib"] == 36);
    assert!(measured, "{found}");
    assert!(found["refusals"].to_string().contains(r#""refusal":"cached""#), "{found}");

    let (refused, text) = ["10", "60"]
        .into_iter()
        .find_map(|seconds| {
            let output = ran(&[name, "--apply", "--seconds", seconds]);
            let text = said(&output);
            (!text.contains("nothing is recommended")).then_some((output, text))
        })
        .expect("a minute is enough");
    if text.contains("is in force already; nothing was changed") {
        // The cache hides any gain, so the window in force is kept: there is nothing to refuse.
        assert_eq!(refused.status.code(), Some(0), "{text}");
        assert_eq!(disk.window_kib(), 36, "it was not set");
    } else {
        is_refused_for_its_cache(name, refused, &text);
        assert_eq!(disk.window_kib(), 36, "it was not set");
    }

    let chosen = forced(name);
    assert_eq!(disk.window_kib(), chosen);
    if chosen != 36 {
        let doctor = Command::new(env!("CARGO_BIN_EXE_foreread")).args(["doctor", name]).output();
        let doctor = String::from_utf8(doctor.unwrap().stdout).unwrap();
        assert!(!doctor.contains("read-ahead-"), "doctor honours what was measured: {doctor}");
        assert!(doctor.contains("and set until the next boot"), "{doctor}");
        let done = ran(&["forget", name]);
        assert!(done.status.success(), "{done:?}");
    }
    assert_eq!(disk.window_kib(), 36, "as before");
    drop(undone);
}

/// Applies by force; the window that was set. Checks what is said of the one before.
fn forced(name: &str) -> u64 {
    let found = ["10", "60"].into_iter().find_map(|seconds| {
        let output = ran(&[name, "--apply", "--force", "--json", "--seconds", seconds]);
        output.status.success().then_some(output)
    });
    let found = found.expect("a minute is enough");
    let (text, report) = (said(&found), one(&found));
    let chosen = report["recommended"]["read_ahead_kb"].as_u64().unwrap();
    let undo = format!("undo: foreread tune forget {name} (or echo 36 > /sys/block/{name}/");
    let says = [format!("set: read_ahead_kb={chosen}, before 36; {undo}"), "in force".to_owned()];
    assert!(text.contains(&says[usize::from(chosen == 36)]), "{text}");
    chosen
}

/// A device that is forgotten, whatever becomes of the test.
struct Remembered<'l>(&'l Loop);

impl Drop for Remembered<'_> {
    fn drop(&mut self) {
        let _ = tune(&["forget", &self.0.name]).output();
    }
}

#[test]
fn what_is_remembered_is_listed_checked_and_undone() {
    const NAME: &str = "what_is_remembered_is_listed_checked_and_undone";
    if !needs(Need::Root, NAME) || !needs(Need::Loop, NAME) {
        return;
    }
    let disk = Loop::new(64);
    let window = Path::new("/sys/block").join(&disk.name).join("queue/read_ahead_kb");
    // What no sweep recommends.
    fs::write(&window, "36").unwrap();
    let (node, remembered) = (disk.node(), Remembered(&disk));
    // A small device on a busy machine: what it recommends is not the question here.
    let found = recommended(&[node.to_str().unwrap(), "--json", "--remember", "--force"]);
    let chosen = found["recommended"]["read_ahead_kb"].as_u64().unwrap();
    assert_eq!(disk.window_kib(), chosen, "it is in force at once");

    let listed = said::data(&ran(&["--list", "--json"]).stdout);
    let is_ours = |known: &&Value| known["device"] == disk.name.as_str();
    let known = listed.iter().find(is_ours).expect("it is listed").clone();
    assert_eq!(known["before"][0]["value"], "36");
    let id = known["identity"]["id"].as_str().unwrap();
    let rule = format!("/etc/udev/rules.d/99-foreread-{id}.rules");
    let text = fs::read_to_string(&rule).unwrap();
    assert!(text.contains(&format!("ATTR{{queue/read_ahead_kb}}=\"{chosen}\"")), "{text}");

    let verdict = || {
        let all = said::data(&ran(&["verify", "--json"]).stdout);
        let is_it = |verdict: &&Value| verdict["name"] == id;
        all.iter().find(is_it).expect("it is checked").clone()
    };
    assert_eq!(verdict()["ok"], true, "{}", verdict());
    fs::write(&window, "40").unwrap();
    assert_eq!(verdict()["ok"], false);
    assert_eq!(ran(&["verify"]).status.code(), Some(1));
    fs::write(&window, chosen.to_string()).unwrap();

    assert!(ran(&["forget", &disk.name]).status.success());
    assert_eq!(disk.window_kib(), 36, "as before");
    assert!(!Path::new(&rule).exists());
    assert!(refused(&["forget", id]).contains("not remembered"));
    drop(remembered);
}
