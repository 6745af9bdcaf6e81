//! Programs that map files, on the mount and on the kernel's own.
//!
//! In:    trees with files of all lengths, with holes and with runs in disorder.
//! Out:   the bytes that the kernel's mount has, and zeros behind the end of the last page.
//! Never: a map of our own, which would be `unsafe`: a program does it that is known to map.
//!
//! ```text
//!   python3     all files, shared and private, from front to back and at random
//!   git         its packs: windows of them, as it needs them
//! ```

use std::path::Path;

use crate::common::{Command, Need, needs, output};
use crate::images::{ABLE, Mounted, fill, folder, make};
use crate::mount::mounted::{Mount, can_compare, can_fuse};

/// Maps each file below the second directory, and compares its pages with what read(2) has of the
/// first. Before each map the kernel drops what it has of the file, so that the touch reads it.
const MAPS: &str = r#"
import ctypes, mmap, os, random, sys

PAGE, WHOLE = mmap.PAGESIZE, 4 << 20
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]

# Of a large file the first and the last pages, some, and those where data begin and end.
def pages_of(file, size):
    last = (size - 1) // PAGE
    if size <= WHOLE:
        return list(range(last + 1))
    some = {0, 1, last - 1, last} | {random.randrange(last + 1) for _ in range(100)}
    at = 0
    while at < size and len(some) < 1000:
        try:
            at = os.lseek(file, at, os.SEEK_DATA)
        except OSError:
            break
        end = os.lseek(file, at, os.SEEK_HOLE)
        some |= {at // PAGE, (end - 1) // PAGE, min(end // PAGE, last)}
        at = end
    return sorted(some)

def touch(theirs, ours, size, flags, advice, pages):
    os.posix_fadvise(ours, 0, 0, os.POSIX_FADV_DONTNEED)
    length = (size + PAGE - 1) // PAGE * PAGE
    at = libc.mmap(None, length, mmap.PROT_READ, flags, ours, 0)
    assert at != ctypes.c_void_p(-1).value, os.strerror(ctypes.get_errno())
    if advice is not None:
        assert libc.madvise(at, length, advice) == 0, os.strerror(ctypes.get_errno())
    for page in pages:
        want = os.pread(theirs, PAGE, page * PAGE).ljust(PAGE, b"\0")
        if ctypes.string_at(at + page * PAGE, PAGE) != want:
            return page
    assert libc.munmap(at, length) == 0

random.seed(8)
maps = wrong = partial = 0
for folder, _, names in os.walk(sys.argv[1]):
    for name in names:
        path = os.path.relpath(os.path.join(folder, name), sys.argv[1])
        theirs, ours = (os.path.join(root, path) for root in sys.argv[1:3])
        if os.path.islink(theirs) or not os.path.isfile(theirs) or not os.path.getsize(theirs):
            continue
        theirs, ours = (os.open(path, os.O_RDONLY) for path in (theirs, ours))
        size = os.fstat(theirs).st_size
        pages = pages_of(theirs, size)
        mixed = random.sample(pages, len(pages))
        partial += size % PAGE > 0
        for flags in mmap.MAP_SHARED, mmap.MAP_PRIVATE:
            for advice, order in (None, pages), (None, mixed), (mmap.MADV_RANDOM, mixed), \
                    (mmap.MADV_SEQUENTIAL, pages), (mmap.MADV_WILLNEED, pages[::-1]):
                maps += 1
                page = touch(theirs, ours, size, flags, advice, order)
                if page is not None:
                    wrong += 1
                    print(f"{path}: flags {flags}, advice {advice}: page {page} of {size} bytes")
        os.close(theirs)
        os.close(ours)
print(f"{maps} maps, {partial} files end within a page, {wrong} wrong")
sys.exit(wrong > 0)
"#;

/// Fails unless the pages of all files are the same; how many maps that took.
#[track_caller]
fn maps_are_same(theirs: &Path, ours: &Path) -> u32 {
    let python = Command::new("python3").args(["-c", MAPS]).arg(theirs).arg(ours).output().unwrap();
    let said = String::from_utf8_lossy(&python.stdout).into_owned();
    assert!(python.status.success(), "{said}{}", String::from_utf8_lossy(&python.stderr));
    said.split(' ').next().and_then(|maps| maps.parse().ok()).unwrap_or_else(|| panic!("{said}"))
}

fn mapped_as_the_kernel_maps(test: &str, options: &[&str], flags: &[&str]) {
    if !can_compare(test) || !needs(Need::Tool("python3"), test) {
        return;
    }
    let folder = folder();
    let image = make(folder.path(), 64, options);
    let mounted = Mounted::new(&image, "rw");
    fill(&mounted.0, ABLE);

    let kernel = mounted.into_read_only();
    let mount = Mount::new(&image, flags);
    let maps = maps_are_same(&kernel.0, &mount.dir);
    assert!(maps >= 10 * 20, "too few files to say anything: {maps}");
    assert_eq!(mount.end(), "");
}

#[test]
fn files_are_mapped_as_the_kernel_maps_them() {
    mapped_as_the_kernel_maps("files_are_mapped_as_the_kernel_maps_them", &[], &[]);
}

#[test]
fn files_with_small_blocks_are_mapped_with_little_memory() {
    let test = "files_with_small_blocks_are_mapped_with_little_memory";
    mapped_as_the_kernel_maps(test, &["-b", "1024"], &["--memory", "1M", "--max-window", "4K"]);
}

#[test]
fn inline_files_are_mapped() {
    mapped_as_the_kernel_maps("inline_files_are_mapped", &["-O", "inline_data"], &[]);
}

/// A repository in the image, all of whose objects are in one pack.
#[test]
fn git_maps_its_packs() {
    let test = "git_maps_its_packs";
    if !can_fuse(test) || !needs(Need::Tool("git"), test) {
        return;
    }
    let folder = folder();
    let tree = folder.path().join("tree");
    let repository = tree.join("repository");
    let git = |at: &Path, arguments: &[&str]| {
        let mut git = Command::new("git");
        git.arg("-C").arg(at).args(["-c", "user.name=n", "-c", "user.email=e@example"]);
        // Small windows, so that many are mapped; and the image may be another owner's.
        git.args(["-c", "core.packedGitWindowSize=64k", "-c", "core.packedGitLimit=256k"]);
        git.args(["-c", "safe.directory=*", "-c", "core.compression=0"]).args(arguments);
        output(&mut git).unwrap_or_else(|error| panic!("git {arguments:?}: {error}"))
    };
    std::fs::create_dir_all(&repository).unwrap();
    git(&repository, &["init", "-q"]);
    let mut state = 1_u32;
    for n in 0..40_u8 {
        let mut random = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_le_bytes()[3]
        };
        let bytes: Vec<u8> = (0..50_000).map(|_| random()).collect();
        std::fs::write(repository.join(format!("file-{n}")), bytes).unwrap();
    }
    git(&repository, &["add", "."]);
    git(&repository, &["commit", "-q", "-m", "all"]);
    git(&repository, &["gc", "-q"]);

    let image = make(folder.path(), 32, &["-d", tree.to_str().unwrap()]);
    let mount = Mount::new(&image, &[]);
    let ours = mount.dir.join("repository");
    let all = ["cat-file", "--batch-all-objects", "--batch-check=%(objectname) %(objectsize:disk)"];
    let want = git(&repository, &all);
    assert_eq!(want.lines().count(), 42);
    assert_eq!(git(&ours, &all), want);
    git(&ours, &["fsck", "--full", "--strict", "--no-progress"]);
    // Hashes each object and compares the hash with its name.
    git(&ours, &["verify-pack", &pack(&repository)]);
    assert_eq!(mount.end(), "");
}

/// The index of the only pack, from the repository on.
fn pack(repository: &Path) -> String {
    let packs = std::fs::read_dir(repository.join(".git/objects/pack")).unwrap();
    let mut names = packs.map(|pack| pack.unwrap().file_name().into_string().unwrap());
    let index = names.find(|name| name.ends_with(".idx")).unwrap();
    format!(".git/objects/pack/{index}")
}
