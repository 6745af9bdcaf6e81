"""Errors of a sweep."""


class SweepError(Exception):
    """A sweep cannot continue. Finished tasks stay in its journal."""


class GridError(ValueError):
    """A grid is invalid; the text names the key."""
