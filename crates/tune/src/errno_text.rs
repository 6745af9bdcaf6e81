//! Error texts of the operating system (`Input/output error`), without the number that Rust
//! appends.

use std::io;

pub(crate) fn errno_text(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_is_left_out() {
        assert_eq!(errno_text(&io::Error::from_raw_os_error(libc::EIO)), "Input/output error");
        assert_eq!(
            errno_text(&io::Error::other("the device does not answer")),
            "the device does not answer"
        );
    }
}
