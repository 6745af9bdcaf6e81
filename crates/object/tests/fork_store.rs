//! A process that forks after it has used a store: the child has none of the runtime's threads, and
//! starts its own. A test of its own, so that no other test runs while it forks.

use std::sync::Arc;

use foreread::Engine;
use foreread_object::object_store::memory::InMemory;
use foreread_object::object_store::{ObjectStoreExt as _, path::Path};
use foreread_object::{Object, StoreOptions, Stores};

/// The child waited without end for a thread that only its parent has.
#[test]
fn a_forked_child_opens_stores_anew_and_the_parent_reads_on() {
    let (store, key) = (Arc::new(InMemory::new()), Path::from("key"));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(store.put(&key, "0123456789".into())).unwrap();
    let open =
        || Object::open(store.clone(), &key, "memory:key", "memory", StoreOptions::default());
    let object = open().unwrap();
    let stores = Stores::new(StoreOptions::default());
    // SAFETY: the child reads from a store, by a runtime of its own, and exits.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        let is_refused = |error: String| error.contains("forked");
        let engine = Engine::builder().memory(4 << 20).build().unwrap();
        let file = engine.open_source(object.clone()).unwrap();
        let is_right =
            object.read_exact_at(&mut [0; 4], 0).is_err_and(|it| is_refused(it.to_string()))
                && file.read_at(&mut [0; 4], 0).is_err_and(|error| is_refused(error.to_string()))
                && stores.open("s3://bucket/key").is_err_and(|it| is_refused(it.to_string()))
                && reads_twice(&open().unwrap());
        // SAFETY: ends the child without running what is the parent's to run.
        unsafe { libc::_exit(i32::from(!is_right)) };
    }
    let mut status = 0;
    // SAFETY: `status` is where the answer goes.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(status, 0, "the child got something else than an error");
    let mut bytes = [0; 4];
    object.read_exact_at(&mut bytes, 6).unwrap();
    assert_eq!(&bytes, b"6789");
}

/// Whether the bytes come, with a cache and without.
fn reads_twice(object: &Object) -> bool {
    // Not one that has the same object open already, by the parent's client.
    let engine = Engine::builder().memory(4 << 20).build().unwrap();
    let (mut direct, mut cached) = ([0; 4], [0; 4]);
    object.read_exact_at(&mut direct, 3).unwrap();
    engine.open_source(object.clone()).unwrap().read_at(&mut cached, 3).unwrap();
    (&direct, &cached) == (b"3456", b"3456")
}
