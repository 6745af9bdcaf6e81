//! The `Stream` trait of `futures-core` for ranges in completion order.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;

use super::stream::{RangeItem, RangeStream};

impl Stream for RangeStream {
    type Item = RangeItem;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        // Calls the inherent method of this name.
        Self::poll_next(self.get_mut(), context)
    }
}
