//! An NBD server: any NBD client reads and writes through the engine's cache, its read-ahead and
//! its scheduler.
//!
//! In:    connections.
//! Out:   replies, in any order; counters.
//! Never: a client that harms another, or the server. Memory beyond the engine's bound and a fixed
//!        amount a connection.
