"""What can go wrong with a sweep."""


class SweepError(Exception):
    """A sweep that cannot go on. What is finished stays in its journal."""


class GridError(ValueError):
    """A grid that is wrong; the text names its key."""
