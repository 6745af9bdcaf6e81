//! What each tunable is, in a few words.
//!
//! In:    its name.
//! Out:   its unit and meaning, for the list that `foreread set` prints.
//! Never: a claim about its default: what is in force stands beside it.

/// What it is; nothing for one that a newer server has and we do not know.
pub(super) fn about(name: &str) -> &'static str {
    match name {
        "policy" => "the read-ahead policy",
        "max_window" => "bytes, or auto: the largest read-ahead window",
        "dirty_limit" => "bytes written and not on the device, beyond which writers wait",
        "dirty_background" => "bytes written and not on the device, beyond which they are sent",
        "dirty_age" => "ms that a written page waits before it is sent unasked",
        "writes_queued" => "write requests that are queued or in flight, at most",
        "scheduler" => "deadline or noop: the order in which requests go to the device",
        "rule" => "2002, 4.x or mq: which deadline it is",
        "read_expire" => "ms at which a read goes first among reads",
        "write_expire" => "ms at which a write goes first among writes",
        "writes_starved" => "batches of reads after which writes have a turn",
        "fifo_batch" => "requests of a batch",
        "front_merges" => "on or off: whether a request may grow at its front",
        "seek_cost" => "rule 2002: what a request costs that does not go on where the last ended",
        "quirks" => "rule mq: on or off: what Linux does and does not mean to",
        "prio_aging_expire" => "rule mq: ms after which a request goes before higher classes",
        "async_depth" => "writes queued or in flight; others wait in a line; 0: no limit",
        "reads_in_flight" => "reads at the device, at most; 0: no limit",
        "writes_in_flight" => "writes at the device, at most; 0: no limit; learn: by the device",
        "read_hold" => "ms after the last read for which writes stay limited",
        "read_drain" => "ms in flight at which a read stops all others until it ends; 0: never",
        "warm" => "on or off: begin as after a batch of reads that is used up",
        "inode_readahead_blks" => "adaptive, or blocks of an inode table read for one inode",
        "lost_writes" => "accept: flushes succeed again after acknowledged writes were lost",
        _ => "",
    }
}
