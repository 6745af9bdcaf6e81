"""Two policies of the library, reimplemented in Python as examples and starting points.

`Fixed` makes the same decisions as the policy `fixed`, and `Linux6` the same as `linux-6`: a test
compares the events of their runs. Two details differ, because the core implements them only for its
own `linux-6`: near the end of a file its marker is counted back from there, and after a read larger
than the limit its windows stay larger than the limit.
docs/design/readahead.md has their pictures.
"""

from __future__ import annotations

from foreread._foreread import Residency
from foreread.sim._policy import Ask, Decision, Limits, Policy, Stream, Window

PAGE_SIZE = 4096


def follows_previous_read(ask: Ask) -> bool:
    """Return whether the read begins on the last page of the previous one, or on the next."""
    # Before its first read, a handle is one page before page 0.
    previous = -1 if ask.prev_pos is None else ask.prev_pos // PAGE_SIZE
    return 0 <= ask.page - previous <= 1


class Fixed(Policy):
    """Windows of the largest size, each requested when the reader enters the previous one."""

    name = "fixed"

    def decide(
        self, stream: Stream, ask: Ask, limits: Limits, cache: Residency
    ) -> Decision | None:
        last, size = stream.window, limits.max
        if ask.is_marker:
            if ask.page == last.marker:
                return Decision("subsequent", Window(last.end, size, size))
            hole = cache.next_hole(ask.page + 1, size)
            return None if hole is None else Decision("interleaved", Window(hole, size, size))
        if ask.page == 0:
            return Decision("initial0", Window(0, size, size))
        if last.size > 0 and ask.page == last.end:
            return Decision("subsequent", Window(ask.page, size, size))
        if follows_previous_read(ask):
            return Decision("initial", Window(ask.page, size, size))
        return Decision("random", Window(ask.page, ask.count))


class Linux6(Policy):
    """The windows of Linux 6.16 and later, on mappings without large folios."""

    name = "linux-6"

    def decide(
        self, stream: Stream, ask: Ask, limits: Limits, cache: Residency
    ) -> Decision | None:
        # A read above the limit stays one request, up to the device's largest request.
        largest = max(limits.max, min(ask.count, limits.io_pages))
        if ask.is_marker:
            return self.on_marker(stream.window, ask, largest, cache)
        return self.on_miss(ask, largest, cache)

    def on_miss(self, ask: Ask, largest: int, cache: Residency) -> Decision:
        """Handle a missing page: a new stream, a continued stream, or a random read."""
        if ask.page == 0:
            pattern = "initial0"
        elif ask.count > largest:
            pattern = "oversize"
        elif follows_previous_read(ask):
            pattern = "initial"
        else:
            # History: resident pages behind the reader came from the same stream.
            history = cache.history(ask.page, max(largest - 1, 0))
            if history <= ask.count:
                return Decision("random", Window(ask.page, ask.count))
            if history >= ask.page:
                history *= 2
            size = min(history + ask.count, largest)
            return Decision("context", Window(ask.page, size, 1))
        size = initial_size(ask.count, largest)
        ahead = size - ask.count if size > ask.count else size // 2
        return Decision(pattern, Window(ask.page, size, ahead))

    def on_marker(
        self, last: Window, ask: Ask, largest: int, cache: Residency
    ) -> Decision | None:
        """Handle a marker: the next window, larger than the last one."""
        if ask.page == last.expected:
            pattern = "subsequent"
            start, size = last.end, max(next_size(last.size, largest), last.size)
        else:
            # Another reader has overwritten the window; the old window's pages are still resident.
            hole = cache.next_hole(ask.page + 1, largest)
            if hole is None:
                return None
            pattern = "interleaved"
            start, size = hole, next_size(hole - ask.page + ask.count, largest)
        # Windows end on multiples of four pages, unless that would leave them empty.
        align = min(4, largest & -largest)
        end = (start + size) // align * align
        size = end - start if end > start else size
        return Decision(pattern, Window(start, size, size))


def initial_size(count: int, largest: int) -> int:
    """Return the first window of a stream: a few times its first read."""
    rounded = 1 << (count - 1).bit_length()
    if rounded <= largest // 32:
        return rounded * 4
    if rounded <= largest // 4:
        return rounded * 2
    return largest


def next_size(size: int, largest: int) -> int:
    """Return the window after one of `size` pages: it grows fast while mistakes are cheap."""
    return min(size * 4 if size < largest // 16 else size * 2, largest)
