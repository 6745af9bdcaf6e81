//! The tests of redb itself, with each file of a database opened through an engine.
//!
//! All databases share one engine with a memory far smaller than their files, so that pages are
//! evicted and written back all the time.
#![cfg(feature = "redb-tests")]

/// What the tests see as redb.
mod redb {
    pub(crate) use ::redb::*;

    pub(crate) mod backends {
        pub(crate) use ::redb::backends::InMemoryBackend;
        pub(crate) use foreread_redb::EngineBackend as FileBackend;
    }
}

mod on_engine {
    use std::fs::{File, OpenOptions};
    use std::io;
    use std::path::Path;
    use std::sync::LazyLock;

    use foreread::Engine;
    use foreread_redb::EngineBackend;
    use redb::{Builder, Database, DatabaseError};

    static ENGINE: LazyLock<Engine> =
        LazyLock::new(|| Engine::builder().memory(16 << 20).build().expect("16 MiB can be had"));

    pub(crate) fn create(path: impl AsRef<Path>) -> Result<Database, DatabaseError> {
        Builder::new().create_on_engine(path)
    }

    pub(crate) fn open(path: impl AsRef<Path>) -> Result<Database, DatabaseError> {
        Builder::new().open_on_engine(path)
    }

    pub(crate) trait FileOnEngine {
        fn new(file: File) -> Result<EngineBackend, DatabaseError>;
    }

    impl FileOnEngine for EngineBackend {
        fn new(file: File) -> Result<EngineBackend, DatabaseError> {
            let is_writable = rustix::fs::fcntl_getfl(&file)
                .is_ok_and(|flags| flags.contains(rustix::fs::OFlags::RDWR));
            Self::of_file(&ENGINE, file, &foreread::OpenOptions::new().write(is_writable))
        }
    }

    /// Replaces [`Builder::create`].
    pub(crate) trait BuilderOnEngine {
        fn create_on_engine(&self, path: impl AsRef<Path>) -> Result<Database, DatabaseError>;
    }

    impl BuilderOnEngine for Builder {
        fn create_on_engine(&self, path: impl AsRef<Path>) -> Result<Database, DatabaseError> {
            self.create_with_backend(EngineBackend::open(&ENGINE, path)?)
        }
    }

    /// Replaces the methods `open`.
    pub(crate) trait OpenOnEngine {
        type Opened;
        type Error;

        fn open_on_engine(&self, path: impl AsRef<Path>) -> Result<Self::Opened, Self::Error>;
    }

    impl OpenOnEngine for Builder {
        type Opened = Database;
        type Error = DatabaseError;

        fn open_on_engine(&self, path: impl AsRef<Path>) -> Result<Database, DatabaseError> {
            let file = OpenOptions::new().read(true).write(true).open(&path)?;
            if file.metadata()?.len() == 0 {
                // redb has no call that opens a backend without making a database of an empty one.
                return self.open(path);
            }
            self.create_with_backend(<EngineBackend as FileOnEngine>::new(file)?)
        }
    }

    /// Tests damage files through the standard library, which stays as it is.
    impl OpenOnEngine for OpenOptions {
        type Opened = File;
        type Error = io::Error;

        fn open_on_engine(&self, path: impl AsRef<Path>) -> io::Result<File> {
            self.open(path)
        }
    }
}

#[allow(warnings, clippy::all, reason = "the code of another project")]
mod of_redb {
    include!(concat!(env!("OUT_DIR"), "/redb_tests.rs"));
}
