//! The NBD protocol: bytes in, values and bytes out.
//!
//! In:    bytes of a peer, split anywhere.
//! Out:   what they ask for, and the bytes of the answers.
//! Never: a socket, an engine, memory whose size the peer chooses.
