//! The crates, and which others each may use.
//!
//! In:    nothing.
//! Out:   a row for each crate, as in ARCHITECTURE.md.
//! Never: a crate that uses one above it.

/// A crate's place in the house. Arrows go down only: `core` uses no other crate of ours, and only
/// the command line uses all.
pub(crate) struct Place {
    pub(crate) folder: &'static str,
    /// The crates of ours that it may use.
    pub(crate) ours: &'static [&'static str],
    /// The others; None: whatever ARCHITECTURE.md gives a reason for.
    pub(crate) others: Option<&'static [&'static str]>,
}

pub(crate) const HOUSE: [Place; 14] = [
    Place { folder: "core", ours: &[], others: Some(&[]) },
    Place {
        folder: "sim",
        ours: &["foreread-core", "foreread-ext4", "foreread-trace"],
        others: None,
    },
    Place {
        folder: "trace",
        ours: &["foreread-core"],
        others: Some(&["flate2", "lzma-rust2", "ruzstd"]),
    },
    Place {
        folder: "record",
        ours: &["foreread-core", "foreread-trace"],
        others: Some(&["libc", "rustix"]),
    },
    Place { folder: "report", ours: &[], others: Some(&["maud", "plotters"]) },
    Place { folder: "ext4", ours: &[], others: Some(&[]) },
    Place { folder: "files", ours: &[], others: Some(&["rustix", "tempfile"]) },
    Place { folder: "tune", ours: &["foreread-core", "foreread-files"], others: None },
    Place {
        folder: "engine",
        ours: &["foreread-core", "foreread-files"],
        // The second line is for optional features.
        others: Some(&[
            "io-uring",
            "libc",
            "rustix", //
            "bytes",
            "futures-core",
            "futures-io",
            "tokio",
            "tracing",
        ]),
    },
    Place { folder: "serve", ours: &["foreread", "foreread-core", "foreread-files"], others: None },
    Place {
        folder: "mount",
        ours: &["foreread", "foreread-core", "foreread-ext4", "foreread-files", "foreread-object"],
        others: None,
    },
    Place { folder: "object", ours: &["foreread", "foreread-core"], others: None },
    Place {
        folder: "python",
        ours: &["foreread", "foreread-core", "foreread-object", "foreread-sim", "foreread-trace"],
        others: None,
    },
    Place {
        folder: "cli",
        ours: &[
            "foreread",
            "foreread-core",
            "foreread-ext4",
            "foreread-files",
            "foreread-mount",
            "foreread-object",
            "foreread-record",
            "foreread-report",
            "foreread-serve",
            "foreread-sim",
            "foreread-trace",
            "foreread-tune",
        ],
        others: None,
    },
];
