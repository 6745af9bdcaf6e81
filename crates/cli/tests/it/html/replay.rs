//! Pages of `replay`.

use std::fmt::Write as _;
use std::fs;

use super::said::{foreread, refused, stdout};
use super::{check, folder, look_at, look_once};

const HEADING: &str = "time_us,thread,op,file,offset,length\n";

/// Two scans in turns, and reads anywhere that come back.
fn mixed() -> String {
    let mut text = HEADING.to_owned();
    let mut random = 1_u64;
    for n in 0..1500_u64 {
        let at = n * 700;
        let _ = writeln!(text, "{at},1,r,/data/first table,{},16384", n * 16384);
        let _ = writeln!(text, "{at},2,r,/data/second,{},8192", n * 8192);
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let _ = writeln!(text, "{at},3,r,/data/index,{},4096", (random >> 33) % 4000 * 4096);
    }
    text
}

#[test]
fn a_replay_has_a_page_with_charts_and_their_figures() {
    let (_keep, folder) = folder();
    let (trace, page) = (folder.join("mixed.csv"), folder.join("replay.html"));
    fs::write(&trace, mixed()).unwrap();
    let (trace, page_name) = (trace.to_str().unwrap(), page.to_str().unwrap());
    let text = stdout(&["replay", trace, "--memory", "4M", "16M", "64M", "--html", page_name]);
    let html = check(&page);
    let sentence = text.lines().rfind(|line| line.starts_with("With 4M")).unwrap();
    assert!(html.contains(&format!("<h1>{sentence}</h1>")), "{sentence}");
    for part in [
        "Total wait of the readers",
        "Waiting over memory",
        "Reads that wait, over memory",
        "How long reads wait, with 4M",
        "Where and when: adaptive",
        "Windows of the largest streams",
        "Memory of the largest streams",
        "/data/first table",
        "foreread-lab replay",
    ] {
        assert!(html.contains(part), "{part}");
    }
    // Written again, and never over another file.
    stdout(&["replay", trace, "--memory", "4M", "--html", page_name]);
    fs::write(folder.join("mine.html"), "<html>mine").unwrap();
    let mine = folder.join("mine.html");
    let line = refused(&["replay", trace, "--html", mine.to_str().unwrap()]);
    assert!(line.contains("--html") && line.contains("was not written by"), "{line}");
    assert!(refused(&["replay", trace, "--html", trace]).contains("would replace the trace"));
    stdout(&["replay", trace, "--memory", "4M", "16M", "64M", "--html", page_name]);
    look_at(&page, "a_replay_has_a_page_with_charts_and_their_figures");
}

#[test]
fn miss_counts_have_a_page() {
    let (_keep, folder) = folder();
    let (trace, page) = (folder.join("counted.csv"), folder.join("misses.html"));
    fs::write(&trace, mixed()).unwrap();
    let (trace, page_name) = (trace.to_str().unwrap(), page.to_str().unwrap());
    let cache = ["--cache", "lru", "sieve", "--memory", "1M", "4M", "16M"];
    stdout(&[&["replay", trace, "--html", page_name][..], &cache].concat());
    assert!(check(&page).contains("Miss ratio over capacity"));
    look_once(&page, "miss_counts_have_a_page");
}

/// Names that would be markup, or would hide what follows, are text.
#[test]
fn names_of_files_are_no_markup() {
    let (_keep, folder) = folder();
    let (trace, page) = (folder.join("hostile.csv"), folder.join("hostile.html"));
    let mut text = HEADING.to_owned();
    let names = [
        "</title><script>alert(1)</script>",
        "<svg onload=alert(1)>",
        "&lt;b&gt;",
        "a%22 onmouseover=%22alert(1)",
        "%E2%80%AEdlrow%00%07",
    ];
    for n in 0..400 {
        for (thread, name) in names.iter().enumerate() {
            let long = "x".repeat(3000);
            let _ = writeln!(text, "{n},{thread},r,{name}{long},{},4096", n * 4096);
        }
    }
    fs::write(&trace, text).unwrap();
    let page_name = page.to_str().unwrap();
    let output = foreread(&["replay", trace.to_str().unwrap(), "--html", page_name]);
    assert!(output.status.success(), "{output:?}");
    let html = check(&page);
    assert!(!html.contains("<svg onload") && !html.contains("\" onmouseover"));
    assert!(!html.chars().any(|c| c.is_control() && c != '\n' || c == '\u{202e}'));
    look_once(&page, "names_of_files_are_no_markup");
}

/// As many policies, memories and files as a page has no room for.
#[test]
fn a_page_stays_below_its_bound() {
    let (_keep, folder) = folder();
    let page = folder.join("many.html");
    let mut args = vec!["replay".to_owned()];
    for n in 0..12 {
        let trace = folder.join(format!("many-{n}.csv"));
        fs::write(&trace, mixed()).unwrap();
        args.push(trace.to_str().unwrap().to_owned());
    }
    args.extend(["--memory", "4M", "--html", page.to_str().unwrap()].map(str::to_owned));
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let output = foreread(&args);
    assert!(output.status.success(), "{output:?}");
    assert!(check(&page).contains("parts are left out"));
}
