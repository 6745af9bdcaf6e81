"""Threads that call fetchers. Python creates them, so that the interpreter can exit at any time."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from foreread._foreread import FetchServer


def start_threads(server: FetchServer) -> None:
    """Start a thread if one is needed; each thread starts the next."""
    if not server.needs_thread():
        return
    try:
        threading.Thread(target=_serve, args=[server], name="foreread-fetch", daemon=True).start()
    except RuntimeError:
        # The system cannot create a thread, or the interpreter is shutting down. Existing threads
        # go on.
        server.thread_failed()


def _serve(server: FetchServer) -> None:
    while True:
        job = server.next()
        if job is None:
            return
        start_threads(server)
        try:
            answer = job.fetch(job.start, job.end)
        except BaseException as error:
            job.failed(error)
        else:
            job.done(answer)
            del answer
        del job
