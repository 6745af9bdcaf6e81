//! Tables of the documentation that tests compute.
//!
//! In:    a page, the head of a table, its rows as they are now.
//! Out:   a panic where the page says something else; with BLESS set, the page written anew.
//! Never: another part of the page.

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
