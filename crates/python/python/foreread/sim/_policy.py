"""Read-ahead policies written in Python, for teaching and experiments.

    class NextFour(sim.Policy):
        name = "next-four"

        def decide(self, stream, ask, limits, cache):
            if ask.is_marker:
                return None
            return sim.Decision("initial", sim.Window(ask.page, ask.count + 4))

    sim.run("backwards", policy=NextFour)

The core asks a policy when a read misses a page, and when a reader reaches a page with a marker. It
asks the same questions as of its own policies, and uses the answers in the same way; only the
policy `adaptive` has parts beyond its decisions (docs/design/adaptive.md).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from foreread._foreread import Residency


@dataclass(frozen=True)
class Window:
    """Pages of one read-ahead.

    ```text
                          |<------ async_size -----|
      |------------------- size ------------------>|
      |===================#========================|
      ^start              ^marker                  ^end = start of the next window
    ```
    """

    start: int
    """First page."""
    size: int
    """Number of pages; 0: no window yet."""
    async_size: int = 0
    """Number of pages at the tail, from the marker on."""

    @property
    def end(self) -> int:
        """One past the last page."""
        return self.start + self.size

    @property
    def marker(self) -> int | None:
        """Page whose first use requests the next window."""
        if 0 < self.async_size <= self.size:
            return self.start + self.size - self.async_size
        return None

    @property
    def expected(self) -> int:
        """Page at which the stream is expected to ask again: its marker, or one past its end."""
        return self.start + max(self.size - self.async_size, 0)


@dataclass(frozen=True)
class Ask:
    """A question to a policy."""

    page: int
    """The missing page, or the page with the marker."""
    count: int
    """Number of remaining pages of the read, including this one."""
    is_marker: bool
    """True if the page is resident and had a marker; False if the reader waits for it."""
    prev_pos: int | None
    """One past the last byte returned by the stream's previous read."""
    has_waited: bool
    """Whether the handle has waited for the device since its last question."""


@dataclass(frozen=True)
class Limits:
    """Limits of a window. A window larger than both `max` and the read is cut."""

    max: int
    """Largest window, in pages."""
    io_pages: int
    """Largest request of the device in pages, or 0."""


@dataclass
class Stream:
    """State kept for one handle."""

    window: Window
    """Last window that was not random."""
    fetched: Window
    """Last pages requested, random or not."""
    memory: list[int] = field(default_factory=lambda: [0] * 8)
    """The policy's own state: eight numbers below 2**64, initially 0."""


@dataclass(frozen=True)
class Decision:
    """A policy's decision: the pages to read, and the reason."""

    pattern: str
    """`initial0`, `initial`, `oversize`, `subsequent`, `context`, `interleaved`, `backwards`,
    `strided`, `thrash`, or `random`, whose window is not kept.
    """
    window: Window
    every: int | None = None
    """For `strided`: distance between the starts of two pieces of the window."""
    read: int | None = None
    """For `strided`: number of pages in a piece."""


class Policy:
    """A read-ahead policy. A run calls `decide` at each decision, while holding the GIL.

    One object serves all handles of a run: keep the state of a handle in `stream.memory`.
    """

    name: str = ""
    """Name in results; defaults to the class name."""

    def decide(
        self, stream: Stream, ask: Ask, limits: Limits, cache: Residency
    ) -> Decision | None:
        """Return the pages to read; None: no read-ahead, and a missing page is read alone.

        `cache` is valid only during this call. An exception ends the run and propagates unchanged.
        """
        raise NotImplementedError(f"{type(self).__name__} has no method decide")


_WindowFields: TypeAlias = "tuple[int, int, int]"
_DecisionFields: TypeAlias = "tuple[str, _WindowFields, tuple[int, int] | None]"
_Answer: TypeAlias = "tuple[_DecisionFields | None, list[int]]"


def policy_change(policy: str | Policy | type[Policy] | None) -> Any:
    """Return a policy in the form of the extension module: a name, or a name and a function."""
    if policy is None or isinstance(policy, str):
        return policy
    instance: Any = policy() if isinstance(policy, type) else policy
    if not callable(getattr(instance, "decide", None)):
        raise TypeError(f"{policy!r} is not a policy: give a name, or an object with decide(..)")
    name = getattr(instance, "name", "") or type(instance).__name__
    return (str(name), _decider(instance))


def _decider(policy: Policy) -> Callable[..., _Answer]:
    """Return the function that the extension module calls with plain numbers."""

    def decide(
        question: tuple[int, int, bool, int | None, bool],
        stream: tuple[_WindowFields, _WindowFields, list[int]],
        limits: tuple[int, int],
        cache: Residency,
    ) -> _Answer:
        window, fetched, memory = stream
        state = Stream(Window(*window), Window(*fetched), memory)
        decision = policy.decide(state, Ask(*question), Limits(*limits), cache)
        return _decision_fields(decision), _memory(state.memory)

    return decide


def _decision_fields(decision: Decision | None) -> _DecisionFields | None:
    if decision is None:
        return None
    if not isinstance(decision, Decision):
        raise TypeError(f"decide() must return a Decision or None, not {decision!r}")
    window = decision.window
    fields = tuple(operator.index(part) for part in (window.start, window.size, window.async_size))
    if any(part < 0 for part in fields):
        raise ValueError(f"decide() returned {window}: pages are not negative")
    start, size, async_size = fields
    stride = None
    if decision.every is not None and decision.read is not None:
        stride = (operator.index(decision.every), operator.index(decision.read))
    return decision.pattern, (start, size, async_size), stride


def _memory(memory: list[int]) -> list[int]:
    numbers = [operator.index(number) for number in memory]
    if len(numbers) != 8 or any(not 0 <= number < 1 << 64 for number in numbers):
        raise ValueError(f"stream.memory must be eight numbers below 2**64, not {numbers}")
    return numbers
