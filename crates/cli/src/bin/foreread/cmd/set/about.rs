//! One-line descriptions of tunables, with their units.

/// Returns the description of a tunable; empty for one of a newer server.
pub(super) fn about(name: &str) -> &'static str {
    match name {
        "policy" => "read-ahead policy",
        "max_window" => "bytes, or auto: largest read-ahead window",
        "dirty_limit" => "dirty bytes at which writers block",
        "dirty_background" => "dirty bytes at which writeback starts",
        "dirty_age" => "ms after which a dirty page is written back",
        "writes_queued" => "maximum number of writes queued or in flight",
        "scheduler" => "deadline or noop: order of requests to the device",
        "rule" => "2002, 4.x or mq: variant of deadline",
        "read_expire" => "ms after which a read is dispatched first",
        "write_expire" => "ms after which a write precedes other writes",
        "writes_starved" => "batches of reads before a batch of writes",
        "fifo_batch" => "requests per batch",
        "front_merges" => "on or off: merge requests at their front",
        "seek_cost" => "rule 2002: cost of a request that does not follow the last one",
        "quirks" => "rule mq: on or off: reproduce unintended behaviour of Linux",
        "prio_aging_expire" => "rule mq: ms after which a request precedes higher classes",
        "async_depth" => "maximum number of writes in the scheduler; 0: no limit",
        "reads_in_flight" => "maximum number of reads in flight; 0: no limit",
        "writes_in_flight" => "maximum number of writes in flight; 0: no limit; learn: adaptive",
        "read_hold" => "ms after the last read during which writes stay limited",
        "read_drain" => "ms in flight after which a read pauses all dispatch; 0: never",
        "warm" => "on or off: start as after a full batch of reads",
        "inode_readahead_blks" => "adaptive, or inode-table blocks to read for one inode",
        "lost_writes" => "accept: flushes succeed again after acknowledged writes were lost",
        _ => "",
    }
}
