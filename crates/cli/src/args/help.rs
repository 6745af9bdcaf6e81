//! Text at the end of the long help of every verb.

/// The end of each verb's long help.
pub(crate) const CODES_AND_UNITS: &str = "\
Units:
  A size is a number of bytes (4096), or of KiB, MiB, GiB or TiB with K, M, G or T after it (64M),
  or of 512-byte sectors with an s (1870001s). A page has 4096 bytes unless you say otherwise.

Exit codes:
  0  fine
  1  the check failed
  2  wrong use or bad input: stdout stays empty; or stdout cannot be written
     (one line on stderr says what)";
