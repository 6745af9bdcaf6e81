//! Tables of the documentation that tests compute. A test fails if its table differs; with BLESS
//! set, it rewrites the table and nothing else.

/// Compares the rows below `head` in a page of docs/ with `rows`, one line each.
pub(crate) fn check_table(page: &str, head: &str, rows: &str) {
    let path = format!("{}/../../docs/{page}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap();
    let start = text.find(head).expect("the table's head") + head.len();
    let end = start + text[start..].find("\n\n").expect("an empty line after the table") + 1;
    if std::env::var_os("BLESS").is_some() {
        let text = format!("{}{rows}{}", &text[..start], &text[end..]);
        std::fs::write(path, text).unwrap();
    } else {
        assert_eq!(text[start..end], *rows, "if this change is meant, ./dev golden");
    }
}
