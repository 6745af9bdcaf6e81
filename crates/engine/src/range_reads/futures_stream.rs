//! The trait `Stream` of `futures-core` for ranges in the order of arrival.
//!
//! In:    polls of that crate's trait.
//! Out:   what the stream gives to a task without the trait.
//! Never: a rule of its own.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;

use super::stream::{RangeItem, RangeStream};

impl Stream for RangeStream {
    type Item = RangeItem;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        // The inherent method of this name.
        Self::poll_next(self.get_mut(), context)
    }
}
