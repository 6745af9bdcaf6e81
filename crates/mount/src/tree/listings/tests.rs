//! Listings of trees that are made up.

use std::sync::atomic::AtomicBool;

use super::*;
use crate::clock;
use crate::tree::{TreeFile, TreeName, TreePage};

/// A tree whose directories all have the same number of files.
#[derive(Debug)]
struct EvenTree {
    files: usize,
    asked: AtomicUsize,
    fails: AtomicBool,
}

impl EvenTree {
    fn new(files: usize) -> Arc<Self> {
        Arc::new(Self { files, asked: AtomicUsize::new(0), fails: AtomicBool::new(false) })
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

impl FileTree for EvenTree {
    fn list(&self, _: &str, page: Option<String>) -> io::Result<TreePage> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if self.fails.load(Ordering::Relaxed) {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "no answer"));
        }
        let start: usize = page.map_or(0, |page| page.parse().unwrap());
        let end = (start + 1000).min(self.files);
        let file = || TreeFile { size: 1, modified: 2, version: "0123456789abcdef".into() };
        let name = |number| TreeName { name: format!("{number:012}"), file: Some(file()) };
        let next = (end < self.files).then(|| end.to_string());
        Ok(TreePage { names: (start..end).map(name).collect(), left_out: Vec::new(), next })
    }

    fn open(&self, path: &str, _: &TreeFile) -> io::Result<foreread::File> {
        panic!("{path} is not read")
    }
}

fn cache(tree: &Arc<EvenTree>, limit: usize) -> ListingCache {
    let log = Arc::new(DamageLog::new(Box::new(|_| {})));
    ListingCache::new(Arc::clone(tree) as _, Duration::from_secs(60), limit, log)
}

#[test]
fn a_directory_is_listed_again_when_its_lifetime_is_over() {
    let tree = EvenTree::new(10);
    let cache = cache(&tree, 1 << 20);
    let start = clock::now();
    for (after_s, asked) in [(0, 1), (59, 1), (60, 2), (119, 2), (120, 3)] {
        let listing = cache.of("a", start + Duration::from_secs(after_s)).unwrap();
        assert_eq!((listing.len(), tree.asked()), (10, asked), "after {after_s} s");
    }
    for after_s in 120..1000 {
        cache.of("a", start + Duration::from_secs(after_s * 60)).unwrap();
    }
    assert!(cache.lock().order.len() <= 2 + SPARE, "it is in line a bounded number of times");
    let asked = tree.asked();
    cache.expire("a");
    cache.of("a", start + Duration::from_secs(121)).unwrap();
    assert_eq!(tree.asked(), asked + 1);
}

/// A million keys in 64 directories, in the memory of ten of them.
#[test]
fn a_million_names_are_listed_in_bounded_memory() {
    let files = 15_625;
    let tree = EvenTree::new(files);
    let bytes_each = FIXED_BYTES + files * (24 + 12 + 16);
    let limit = 10 * bytes_each;
    let cache = cache(&tree, limit);
    let now = clock::now();
    let mut found = 0;
    for number in 0..64 {
        let listing = cache.of(&format!("directory-{number}"), now).unwrap();
        assert!(cache.bytes() <= limit, "{} bytes after {number}", cache.bytes());
        found += (0..listing.len()).filter(|at| listing.at(*at).is_some()).count();
    }
    assert_eq!((found, tree.asked()), (1_000_000, 64 * 16));
    assert!(cache.bytes() > limit / 2, "what fits is kept: {}", cache.bytes());
    cache.of("directory-63", now).unwrap();
    assert_eq!(tree.asked(), 64 * 16, "the last one is there");
    cache.of("directory-0", now).unwrap();
    assert_eq!(tree.asked(), 65 * 16, "the first one has gone");
}

#[test]
fn a_directory_that_needs_too_much_is_an_error_and_others_go_on() {
    let tree = EvenTree::new(100_000);
    let cache = cache(&tree, 1 << 20);
    let error = cache.of("large", clock::now()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
    assert!(error.to_string().contains("large: its listing"), "{error}");
    assert!(tree.asked() < 30, "it stops as soon as the memory is spent: {}", tree.asked());
    assert_eq!(cache.bytes(), 0);
}

/// Evicted listings stay in memory as long as an open directory has them: they count.
#[test]
fn listings_that_are_in_use_count_until_they_are_let_go_of() {
    let tree = EvenTree::new(10_000);
    let cache = cache(&tree, 1 << 20);
    let held = cache.of("a", clock::now()).unwrap();
    assert!(cache.of("b", clock::now()).is_err(), "beside the one that is held it does not fit");
    drop(held);
    assert_eq!(cache.of("b", clock::now()).unwrap().len(), 10_000);
}

#[test]
fn an_error_reaches_all_that_wait_and_the_next_one_asks_again() {
    let tree = EvenTree::new(1);
    let cache = cache(&tree, 1 << 20);
    tree.fails.store(true, Ordering::Relaxed);
    let errors = std::thread::scope(|scope| {
        let ask = || cache.of("a", clock::now()).unwrap_err().kind();
        let asking: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
        asking.into_iter().map(|it| it.join().unwrap()).collect::<Vec<_>>()
    });
    assert!(errors.iter().all(|kind| *kind == io::ErrorKind::TimedOut), "{errors:?}");
    tree.fails.store(false, Ordering::Relaxed);
    assert_eq!(cache.of("a", clock::now()).unwrap().len(), 1);
}
