//! Text at the end of the long help of every verb.

/// The end of each verb's long help.
pub const CODES_AND_UNITS: &str = "\
Units:
  Sizes are in bytes (4096), or in KiB, MiB, GiB or TiB with the suffix K, M, G or T (64M), or in
  512-byte sectors with s (1870001s). A page has 4096 bytes unless set otherwise.

Exit codes:
  0  success
  1  the check failed
  2  wrong usage or bad input (nothing is printed on stdout), or stdout cannot be written;
     one line on stderr gives the reason";
