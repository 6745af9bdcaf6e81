"""Read-ahead policies that are written in Python, for teaching and for trying ideas.

    class NextFour(sim.Policy):
        name = "next-four"

        def decide(self, stream, ask, limits, cache):
            if ask.is_marker:
                return None
            return sim.Decision("initial", sim.Window(ask.page, ask.count + 4))

    sim.run("backwards", policy=NextFour)

The core asks a policy where a read misses a page, and where a reader comes to a page with a
marker. It is asked what its own policies are asked, and its answer is used as theirs are; only the
policy `adaptive` has parts that are more than its decisions (docs/adaptive.md).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from foreread._foreread import Residency


@dataclass(frozen=True)
class Window:
    """The pages of one read-ahead.

    ```text
                          |<------ async_size -----|
      |------------------- size ------------------>|
      |===================#========================|
      ^start              ^marker                  ^end = start of the next window
    ```
    """

    start: int
    """The first page."""
    size: int
    """How many; 0: no window yet."""
    async_size: int = 0
    """How many of them, at the tail, lie behind the marker."""

    @property
    def end(self) -> int:
        """One past the last page."""
        return self.start + self.size

    @property
    def marker(self) -> int | None:
        """The page whose first use asks for the next window."""
        if 0 < self.async_size <= self.size:
            return self.start + self.size - self.async_size
        return None

    @property
    def expected(self) -> int:
        """Where the stream is expected to ask again: its marker, or one past its end."""
        return self.start + max(self.size - self.async_size, 0)


@dataclass(frozen=True)
class Ask:
    """One question to a policy."""

    page: int
    """The page that is missing, or that carried the marker."""
    count: int
    """The pages that are left of the read, this one included."""
    is_marker: bool
    """Whether the page is resident and carried a marker; else the reader waits for it."""
    prev_pos: int | None
    """The byte after the last one that the stream's previous read returned."""
    has_waited: bool
    """Whether the handle waited for the device since it last asked."""


@dataclass(frozen=True)
class Limits:
    """What bounds a window. A window that is larger than `max` and than the read is cut."""

    max: int
    """The largest window, in pages."""
    io_pages: int
    """The largest request that the device takes, in pages, or 0."""


@dataclass
class Stream:
    """What is remembered of one handle."""

    window: Window
    """Its last window that was not random."""
    fetched: Window
    """The last pages that it asked for, at random or not."""
    memory: list[int] = field(default_factory=lambda: [0] * 8)
    """What the policy notes of it: eight numbers below 2**64, all 0 before the first question."""


@dataclass(frozen=True)
class Decision:
    """What a policy decided: which pages to read, and why."""

    pattern: str
    """`initial0`, `initial`, `oversize`, `subsequent`, `context`, `interleaved`, `backwards`,
    `strided`, `thrash`, or `random`, whose window is not remembered."""
    window: Window
    every: int | None = None
    """Of `strided`: from the start of a piece of the window to that of the next."""
    read: int | None = None
    """Of `strided`: the pages of a piece."""


class Policy:
    """A read-ahead policy. A run calls `decide` at each decision; it holds the GIL meanwhile.

    One object serves all handles of a run: what belongs to one goes into `stream.memory`.
    """

    name: str = ""
    """Its name in results; without one, that of its class."""

    def decide(
        self, stream: Stream, ask: Ask, limits: Limits, cache: Residency
    ) -> Decision | None:
        """Returns the pages to read; None: none ahead, and a missing page is read by itself.

        `cache` answers only while this runs. An exception ends the run and leaves it as it is.
        """
        raise NotImplementedError(f"{type(self).__name__} has no method decide")


_WindowFields: TypeAlias = "tuple[int, int, int]"
_DecisionFields: TypeAlias = "tuple[str, _WindowFields, tuple[int, int] | None]"
_Answer: TypeAlias = "tuple[_DecisionFields | None, list[int]]"


def policy_change(policy: str | Policy | type[Policy] | None) -> Any:
    """Returns a policy as the extension module takes it: a name, or a name and a function."""
    if policy is None or isinstance(policy, str):
        return policy
    instance: Any = policy() if isinstance(policy, type) else policy
    if not callable(getattr(instance, "decide", None)):
        raise TypeError(f"{policy!r} is no policy: give a name, or an object with decide(..)")
    name = getattr(instance, "name", "") or type(instance).__name__
    return (str(name), _decider(instance))


def _decider(policy: Policy) -> Callable[..., _Answer]:
    """Returns the function that the extension module calls with plain numbers."""

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
        raise TypeError(f"decide() returned {decision!r}: wants a Decision or None")
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
        raise ValueError(f"stream.memory is {numbers}: wants eight numbers below 2**64")
    return numbers
