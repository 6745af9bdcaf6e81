//! The target of a real replay: where the files of the trace are in it.
//!
//! Reads never exceed a file, and names of the trace never lead out of the directory.
//!
//! ```text
//!   DIR      /var/db/a, /var/db/b   --> DIR/var/db/a, DIR/var/db/b; or DIR/a, DIR/b
//!   a file   one file               --> the same offsets
//!            several                --> |-- a --|.|---- b ----|.|- c -|   from multiples of 1 MiB
//! ```

use std::path::{Component, Path, PathBuf};

use foreread::{Engine, OpenError, OpenErrorKind};
use foreread_core::sizes::Exact;
use foreread_core::units::{ByteCount, PAGE_SIZE};
use foreread_trace::{FileSummary, TraceRecord, TraceSummary};

use foreread_cli::output::Failure;

/// The files that are read, and which file of the trace each stands for.
#[derive(Debug)]
pub(super) struct RealTargets {
    pub(super) files: Vec<TargetFile>,
    /// By file number of the trace; None for a file that is not read.
    places: Vec<Option<FilePlace>>,
    /// Description of the mapping from the trace's files.
    pub(super) mapping: String,
}

/// A file or block device that is read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct TargetFile {
    pub(super) path: PathBuf,
    pub(super) len: u64,
    /// Why it cannot be read around the page cache.
    pub(super) buffered: Option<&'static str>,
}

/// Target and offset at which a file of the trace begins.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct FilePlace {
    file: usize,
    start: u64,
}

/// Target and offset of a read of the trace.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct ReadPlace {
    pub(super) file: usize,
    pub(super) offset: u64,
    /// True if the read was wrapped around the end.
    pub(super) is_wrapped: bool,
}

impl RealTargets {
    /// Finds the files of a trace in a target.
    pub(super) fn find(
        target: &Path,
        summary: &TraceSummary,
        wraps: bool,
    ) -> Result<Self, Failure> {
        // Opened through the engine for its error messages.
        let engine = Engine::builder().memory(1 << 20).build();
        let engine = engine.map_err(|error| Failure::WrongUse(error.to_string()))?;
        let found = if target.is_dir() {
            in_directory(&engine, target, summary)?
        } else {
            in_one_file(&engine, target, summary)?
        };
        found.check(summary, wraps)?;
        Ok(found)
    }

    /// Returns the target and offset of a read; None if the first pass over the trace did not see
    /// it.
    pub(super) fn place(&self, record: &TraceRecord) -> Option<ReadPlace> {
        let place = self.places.get(record.file.0 as usize).copied().flatten()?;
        let len = self.files[place.file].len;
        let offset = place.start.saturating_add(record.offset);
        let wrapped = (record.length <= len).then(|| wrapped(offset, record.length, len))?;
        Some(ReadPlace { file: place.file, offset: wrapped, is_wrapped: wrapped != offset })
    }

    /// Returns an error unless every read is within its file or may be wrapped.
    fn check(&self, summary: &TraceSummary, wraps: bool) -> Result<(), Failure> {
        for (file, place) in summary.files.iter().zip(&self.places) {
            let Some(place) = place else { continue };
            let TargetFile { path, len, .. } = &self.files[place.file];
            let path = path.display();
            let end = place.start.saturating_add(file.read_end);
            if end <= *len {
                continue;
            }
            let has = Exact(ByteCount(*len));
            if !wraps {
                let name = &file.name;
                return Err(Failure::WrongUse(format!(
                    "{path}: has {has}, and the trace reads {name} up to byte {end} of it; give a \
                     larger target, or --wrap"
                )));
            }
            if file.longest_read > *len {
                let (name, longest) = (&file.name, file.longest_read);
                return Err(Failure::WrongUse(format!(
                    "{path}: has {has}, and a read of {name} in the trace has {longest} bytes; \
                     give a larger target"
                )));
            }
        }
        Ok(())
    }
}

/// Wraps an offset past the end to the start, and moves a read that crosses the end before it, by
/// whole pages.
fn wrapped(offset: u64, length: u64, len: u64) -> u64 {
    if offset.saturating_add(length) <= len {
        return offset;
    }
    assert!(length <= len, "the caller has refused longer reads");
    let offset = offset % len;
    let past_end = (offset + length).saturating_sub(len);
    offset.saturating_sub(past_end.next_multiple_of(PAGE_SIZE))
}

fn in_one_file(
    engine: &Engine,
    target: &Path,
    summary: &TraceSummary,
) -> Result<RealTargets, Failure> {
    let file = opened(engine, target).map_err(|error| Failure::WrongUse(error.to_string()))?;
    if file.len == 0 {
        let line = format!("{}: is empty; give a target with something to read", target.display());
        return Err(Failure::WrongUse(line));
    }
    let mut start = 0_u64;
    let mut places = Vec::new();
    for FileSummary { read_end, .. } in &summary.files {
        let is_read = *read_end > 0;
        places.push(is_read.then_some(FilePlace { file: 0, start }));
        start = start.saturating_add(read_end.next_multiple_of(FILE_ALIGN));
    }
    let read = places.iter().flatten().count();
    let mapping = match read {
        1 => "offsets as in the trace".to_owned(),
        count => format!("the {count} files of the trace lie in it one behind the other"),
    };
    Ok(RealTargets { files: vec![file], places, mapping })
}

fn in_directory(
    engine: &Engine,
    target: &Path,
    summary: &TraceSummary,
) -> Result<RealTargets, Failure> {
    let read = summary.files.iter().filter(|file| file.read_end > 0);
    let names: Vec<&str> = read.map(|file| file.name.as_str()).collect();
    let common = common_directory(&names);
    let mut rules = vec![(PathBuf::new(), "DIR/NAME".to_owned())];
    if !common.as_os_str().is_empty() {
        let words = format!("DIR/NAME without {}", common.display());
        rules.push((common, words));
    }
    let mut missing = Vec::new();
    for (prefix, words) in rules {
        match all_below(engine, target, summary, &prefix) {
            Ok((files, places)) => {
                let dir = target.display();
                let count = files.len();
                let mapping = format!("{count} files below {dir}: {words}");
                return Ok(RealTargets { files, places, mapping });
            }
            Err(line) => missing.push(line),
        }
    }
    let tried = missing.join("; ");
    Err(Failure::WrongUse(format!(
        "{}: does not have the files of the trace: {tried}; give one file or device for all of them",
        target.display()
    )))
}

type FilesAndPlaces = (Vec<TargetFile>, Vec<Option<FilePlace>>);

/// All files that are read, below a directory, without a prefix of their names.
fn all_below(
    engine: &Engine,
    target: &Path,
    summary: &TraceSummary,
    prefix: &Path,
) -> Result<FilesAndPlaces, String> {
    let (mut files, mut places) = (Vec::new(), Vec::new());
    for file in &summary.files {
        if file.read_end == 0 {
            places.push(None);
            continue;
        }
        let name = relative(&file.name)
            .ok_or_else(|| format!("{}: is not a valid file name", file.name))?;
        let name = name.strip_prefix(prefix).expect("all names have it");
        let found = opened(engine, &target.join(name)).map_err(|error| {
            if matches!(error.kind, OpenErrorKind::NotFound) {
                // The error of the directory has the advice.
                return format!("{}: no such file", error.path.display());
            }
            error.to_string()
        })?;
        places.push(Some(FilePlace { file: files.len(), start: 0 }));
        files.push(found);
    }
    Ok((files, places))
}

/// Returns a name without its root; None if it would lead out of a directory.
fn relative(name: &str) -> Option<PathBuf> {
    let mut path = PathBuf::new();
    for part in Path::new(name).components() {
        match part {
            Component::RootDir | Component::CurDir => {}
            Component::Normal(part) => path.push(part),
            Component::ParentDir | Component::Prefix(_) => return None,
        }
    }
    (!path.as_os_str().is_empty()).then_some(path)
}

/// Returns the longest common directory of all names.
fn common_directory(names: &[&str]) -> PathBuf {
    let mut names = names.iter().filter_map(|name| relative(name));
    let Some(first) = names.next() else { return PathBuf::new() };
    let mut common = first.parent().map(Path::to_path_buf).unwrap_or_default();
    for name in names {
        while !name.parent().is_some_and(|parent| parent.starts_with(&common)) {
            if !common.pop() {
                break;
            }
        }
    }
    common
}

fn opened(engine: &Engine, path: &Path) -> Result<TargetFile, OpenError> {
    let file = engine.open(path)?;
    let (len, buffered) = (file.len(), file.direct_io_unavailable());
    Ok(TargetFile { path: path.to_owned(), len, buffered })
}

/// Files on one target begin at multiples of this, as on a model.
const FILE_ALIGN: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use foreread_core::units::Nanos;
    use foreread_trace::{FileNo, TraceOp, TraceReader};

    use super::*;

    fn summary(text: &str) -> TraceSummary {
        let text = format!("time_us,thread,op,file,offset,length\n{text}");
        TraceSummary::of(TraceReader::new(text.as_bytes(), "t").unwrap()).unwrap()
    }

    fn read(file: u32, offset: u64, length: u64) -> TraceRecord {
        let (file, op) = (FileNo(file), TraceOp::Read);
        TraceRecord { at: Nanos(0), thread: 1, file, op, offset, length, is_mapped: false }
    }

    fn line<T: std::fmt::Debug>(found: Result<T, Failure>) -> String {
        match found {
            Err(Failure::WrongUse(line)) => line,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_past_the_end_begins_again_and_stays_inside() {
        assert_eq!(wrapped(0, 100, 100), 0);
        assert_eq!(wrapped(10_000, 4096, 10_000), 0);
        assert_eq!(wrapped(22_000, 4096, 10_000), 2000);
        // Across the end: before it by whole pages, so that what was aligned stays so.
        assert_eq!(wrapped(8192, 4096, 10_000), 4096);
        assert_eq!(wrapped(1 << 60, 10_000, 10_000), 0);
        for offset in 0..30_000 {
            assert!(wrapped(offset, 5000, 10_000) + 5000 <= 10_000, "{offset}");
        }
    }

    #[test]
    fn one_file_has_the_same_offsets_and_several_lie_one_behind_the_other() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("target");
        std::fs::write(&target, vec![1; 3 << 20]).unwrap();
        let one = summary("0,1,r,/a,8192,4096\n");
        let targets = RealTargets::find(&target, &one, false).unwrap();
        let place = ReadPlace { file: 0, offset: 8192, is_wrapped: false };
        assert_eq!(targets.place(&read(0, 8192, 4096)), Some(place));
        assert_eq!(targets.place(&read(1, 0, 1)), None, "no such file");
        assert_eq!(targets.place(&read(0, 0, 4 << 20)), None, "longer than the target");
        assert_eq!(targets.mapping, "offsets as in the trace");

        // The second file is only written, and takes no room.
        let several = summary("0,1,r,/a,0,1048577\n0,1,w,/w,0,4096\n0,1,r,/b,4096,4096\n");
        let targets = RealTargets::find(&target, &several, false).unwrap();
        assert_eq!(targets.place(&read(2, 4096, 4096)).unwrap().offset, (2 << 20) + 4096);
        assert_eq!(targets.mapping, "the 2 files of the trace lie in it one behind the other");

        let beyond = summary("0,1,r,/a,0,3145728\n0,1,r,/b,0,1\n");
        let refused = line(RealTargets::find(&target, &beyond, false));
        assert!(
            refused.contains("has 3M") && refused.contains("/b up to byte 3145729"),
            "{refused}"
        );
        assert!(refused.contains("--wrap"), "{refused}");
        let targets = RealTargets::find(&target, &beyond, true).unwrap();
        let place = ReadPlace { file: 0, offset: 0, is_wrapped: true };
        assert_eq!(targets.place(&read(1, 0, 1)), Some(place));
        let longer = summary("0,1,r,/a,0,3145729\n");
        let refused = line(RealTargets::find(&target, &longer, true));
        assert!(refused.contains("a read of /a in the trace has 3145729 bytes"), "{refused}");
    }

    #[test]
    fn a_directory_has_the_names_of_the_trace_or_what_differs_in_them() {
        let folder = tempfile::tempdir().unwrap();
        let below = |name: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, "0123456789").unwrap();
        };
        let names = summary("0,1,r,/var/db/a,0,9\n0,1,r,/var/db/s/b,0,9\n0,1,w,/etc/w,0,9\n");
        below("a");
        let refused = line(RealTargets::find(folder.path(), &names, false));
        assert!(refused.contains("var/db/a") && refused.contains("s/b"), "{refused}");
        assert_eq!(refused.matches("; give ").count(), 1, "one advice: {refused}");
        below("s/b");
        let targets = RealTargets::find(folder.path(), &names, false).unwrap();
        assert!(targets.mapping.ends_with(": DIR/NAME without var/db"), "{}", targets.mapping);
        assert_eq!(targets.files[1].path, folder.path().join("s/b"));
        assert_eq!(targets.place(&read(1, 1, 5)).unwrap().file, 1);
        below("var/db/a");
        below("var/db/s/b");
        let targets = RealTargets::find(folder.path(), &names, false).unwrap();
        assert!(targets.mapping.ends_with(": DIR/NAME"), "{}", targets.mapping);
        // A read past the end of one file may be longer in another, which is large enough.
        std::fs::write(folder.path().join("var/db/s/b"), [7; 100]).unwrap();
        let longer = summary("0,1,r,/var/db/a,9,4\n0,1,r,/var/db/s/b,0,50\n");
        assert!(RealTargets::find(folder.path(), &longer, true).is_ok());
        let longer = summary("0,1,r,/var/db/a,9,11\n0,1,r,/var/db/s/b,0,9\n");
        let refused = line(RealTargets::find(folder.path(), &longer, true));
        assert!(refused.contains("a read of /var/db/a in the trace has 11 bytes"), "{refused}");
        let out = summary("0,1,r,../a,0,9\n");
        let refused = line(RealTargets::find(folder.path(), &out, false));
        assert!(refused.contains("../a: is not a valid file name"), "{refused}");
    }
}
