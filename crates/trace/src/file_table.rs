//! Files named in a trace, numbered in the order of first use. Their number and the length of their
//! names are limited, so that a hostile trace ends with an error.

use std::collections::HashMap;

/// Number of a file in a trace.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct FileNo(pub u32);

/// A file of a trace.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct TraceFile {
    /// Name.
    pub name: String,
    /// Length in bytes, if the format gives it.
    pub size: Option<u64>,
}

/// Files of a trace so far.
#[derive(Clone, Debug, Default)]
pub struct FileTable {
    files: Vec<TraceFile>,
    numbers: HashMap<Box<str>, FileNo>,
    /// Last file: text formats name the same file line after line.
    last: FileNo,
}

impl FileTable {
    /// Returns all files, by number.
    #[must_use]
    pub fn all(&self) -> &[TraceFile] {
        &self.files
    }

    /// Returns the file of this number.
    #[must_use]
    pub fn get(&self, file: FileNo) -> Option<&TraceFile> {
        self.files.get(file.0 as usize)
    }

    /// Returns the number of the file of this name, adding it if it is new.
    pub(crate) fn number(&mut self, name: &str) -> Result<FileNo, String> {
        if self.get(self.last).is_some_and(|last| last.name == name) {
            return Ok(self.last);
        }
        self.last = match self.numbers.get(name) {
            Some(number) => *number,
            None => self.add(name, None)?,
        };
        Ok(self.last)
    }

    /// Adds a file under the next number. Two files may have the same name.
    ///
    /// # Errors
    ///
    /// If the name is empty or longer than 4096 bytes, or there are 2^20 files.
    pub fn add(&mut self, name: &str, size: Option<u64>) -> Result<FileNo, String> {
        if name.is_empty() {
            return Err("a file without a name".into());
        }
        if name.len() > MAX_NAME {
            return Err(format!("a file name of {} bytes; at most {MAX_NAME}", name.len()));
        }
        let number = u32::try_from(self.files.len()).unwrap_or(u32::MAX);
        if number >= MAX_FILES {
            return Err(format!("more than {MAX_FILES} files"));
        }
        let number = FileNo(number);
        self.files.push(TraceFile { name: name.to_owned(), size });
        self.numbers.entry(name.into()).or_insert(number);
        Ok(number)
    }

    /// Returns a table with hashes in place of the names: `h` and 16 hexadecimal digits, the same
    /// for the same name in every trace.
    #[must_use]
    pub fn hashed(&self) -> Self {
        let mut hashed = Self::default();
        for TraceFile { name, size } in &self.files {
            // The limits were checked for the original names.
            let _ = hashed.add(&hash_of_name(name), *size);
        }
        hashed
    }
}

/// Returns the hash that replaces a name: 64-bit FNV-1a, the same in every release. A guessed name
/// can be confirmed by its hash.
pub(crate) fn hash_of_name(name: &str) -> String {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    format!("h{:016x}", name.bytes().fold(0xcbf2_9ce4_8422_2325, step))
}

/// Most files of one trace; each takes some hundred bytes.
const MAX_FILES: u32 = 1 << 20;

/// Linux's `PATH_MAX`.
const MAX_NAME: usize = 4096;
