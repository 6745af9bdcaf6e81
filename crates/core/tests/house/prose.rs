//! Prose by figures: words that stand where a noun or an actor belongs, and how doc comments open.
//!
//! In:    comments of shipped code; documents.
//! Out:   counts, each with its limit.
//! Never: a judgement of a sentence. A limit is lowered when a count falls, never raised.

use super::source::{Source, sources};

/// Words with which a sentence tends to hide its subject. In pieces, so that this file may name
/// them.
const VAGUE: [&str; 20] = [
    concat!("what", "ever"),
    concat!("bes", "ide"),
    concat!("so ", "many"),
    concat!("so ", "much"),
    concat!("so ", "long"),
    concat!("of its ", "own"),
    concat!("of their ", "own"),
    concat!("sa", "ys"),
    concat!("to", "ld"),
    concat!("as", "ks"),
    concat!("as", "ked"),
    concat!("wa", "nts"),
    concat!("kn", "ows"),
    concat!("li", "es"),
    concat!("wh", "ose"),
    concat!("that ", "of"),
    concat!("those ", "of"),
    concat!("but ", "for"),
    concat!("mean", "while"),
    concat!("for ", "ever"),
];

/// Counts over text: lines, and the words of interest in them.
#[derive(Debug, Default)]
struct WordCounts {
    lines: usize,
    what: usize,
    vague: usize,
}

impl WordCounts {
    fn add(&mut self, line: &str) {
        let words: Vec<String> = line
            .split(|c: char| !c.is_alphanumeric())
            .filter(|word| !word.is_empty())
            .map(str::to_lowercase)
            .collect();
        let text = format!(" {} ", words.join(" "));
        self.lines += 1;
        self.what += words.iter().filter(|word| *word == "what").count();
        self.vague +=
            VAGUE.iter().map(|word| text.matches(&format!(" {word} ")).count()).sum::<usize>();
    }

    fn per_1000(&self, count: usize) -> usize {
        count * 1000 / self.lines.max(1)
    }
}

/// Counts over doc comments, each by its first line.
#[derive(Debug, Default)]
struct Openings {
    docs: usize,
    questions: usize,
    functions: usize,
    returns: usize,
}

impl Openings {
    /// Counts the doc comment that begins with `line`; `item` is the line of code behind it.
    fn add(&mut self, line: &str, item: Option<&str>) {
        let first = line.split_whitespace().next().unwrap_or("");
        self.docs += 1;
        self.questions += usize::from(matches!(first, "What" | "How"));
        if item.is_some_and(is_function) {
            self.functions += 1;
            self.returns += usize::from(first == "Returns");
        }
    }
}

#[test]
fn comments_are_plain_prose() {
    let (mut words, mut openings) = (WordCounts::default(), Openings::default());
    for file in sources() {
        if is_shipped(&file) {
            count_comments(&file.text, &mut words, &mut openings);
        }
    }
    let (what, vague) = (words.per_1000(words.what), words.per_1000(words.vague));
    assert!(words.lines > 10_000 && openings.functions > 1000, "{words:?}, {openings:?}");
    assert!(what <= 3, "'what' {what} times in 1000 lines of comments: name the thing");
    assert!(vague <= 18, "{vague} vague words in 1000 lines of comments; the list is in prose.rs");
    let Openings { questions, functions, returns, .. } = openings;
    assert!(questions <= 15, "{questions} doc comments open with What or How: open with a noun");
    assert!(
        returns * 5 >= functions * 2,
        "{returns} of {functions} functions say what they return"
    );
}

#[test]
fn documents_are_plain_prose() {
    let mut words = WordCounts::default();
    let is_document = |file: &Source| {
        file.has_extension("md") && (file.path.starts_with("docs/") || !file.path.contains('/'))
    };
    for file in sources().iter().filter(|file| is_document(file)) {
        file.text.lines().filter(|line| !line.trim().is_empty()).for_each(|line| words.add(line));
    }
    let (what, vague) = (words.per_1000(words.what), words.per_1000(words.vague));
    assert!(words.lines > 1000, "{words:?}");
    assert!(what <= 18, "'what' {what} times in 1000 lines of documents");
    assert!(vague <= 28, "{vague} vague words in 1000 lines of documents");
}

/// Sources of the crates, without their tests.
fn is_shipped(file: &Source) -> bool {
    file.path.starts_with("crates/")
        && file.path.contains("/src/")
        && file.has_extension("rs")
        && !file.path.contains("/tests/")
        && !file.path.ends_with("/tests.rs")
}

fn count_comments(text: &str, words: &mut WordCounts, openings: &mut Openings) {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let is_doc = |line: &str| line.starts_with("///") || line.starts_with("//!");
    let mut is_in_doc = false;
    for (n, line) in lines.iter().enumerate() {
        if *line == "#[cfg(test)]" && lines.get(n + 1).is_some_and(|next| next.ends_with('{')) {
            return;
        }
        let Some(comment) = line.strip_prefix("//") else {
            is_in_doc = false;
            continue;
        };
        let comment = comment.trim_start_matches(['/', '!', ' ']);
        words.add(comment);
        if is_doc(line) && !is_in_doc {
            let is_before_item = |line: &&&str| !line.starts_with("//") && !line.starts_with("#[");
            let item = lines[n..].iter().find(is_before_item).copied();
            openings.add(comment, item.filter(|_| line.starts_with("///")));
        }
        is_in_doc = is_doc(line);
    }
}

fn is_function(item: &str) -> bool {
    let item = item.strip_prefix("pub").map_or(item, |item| {
        item.strip_prefix('(').and_then(|item| item.split_once(')')).map_or(item, |(_, item)| item)
    });
    let words: Vec<&str> = item.split_whitespace().take(4).collect();
    let fn_at = words.iter().position(|word| *word == "fn");
    fn_at.is_some_and(|at| words[..at].iter().all(|w| matches!(*w, "const" | "async" | "unsafe")))
}

#[test]
fn comments_are_counted() {
    let text = "//! What a file is.\n\n/// Returns what it has.\n#[must_use]\npub(crate) fn a() {}\n\
                /// Does it.\n/// Twice.\nfn b() {}\n// So many words.\nlet x = 1; // what\n\
                #[cfg(test)]\nmod tests {\n// what\n";
    let (mut words, mut openings) = (WordCounts::default(), Openings::default());
    count_comments(text, &mut words, &mut openings);
    assert_eq!((words.lines, words.what, words.vague), (5, 2, 1), "{words:?}");
    let Openings { docs, questions, functions, returns } = openings;
    assert_eq!((docs, questions, functions, returns), (3, 1, 2, 1));
}
