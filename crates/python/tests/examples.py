"""The examples of the pages, and an interpreter that runs them."""

import json
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping

ROOT = pathlib.Path(__file__).parents[3]

# The blocks of a page are one program: names of one are known in the next.
_RUN = """
import json, sys
names = {"__name__": "__main__"}
for title, text in json.load(sys.stdin):
    exec(compile(text, title, "exec"), names)
"""


def blocks_of(page: str, kind: str = "python", section: str | None = None) -> list[tuple[str, str]]:
    """Returns the blocks of a page, or of a section of it, with a title for error messages."""
    text = (ROOT / page).read_text()
    if section is not None:
        parts = re.split(r"^##+ (.*)$", text, flags=re.MULTILINE)
        text = dict(zip(parts[1::2], parts[2::2], strict=True))[section]
    found = re.findall(rf"```{kind}\n(.*?)```", text, re.DOTALL)
    return [(f"{page}, {section or kind} {number}", block) for number, block in enumerate(found)]


def run(
    blocks: Iterable[tuple[str, str]],
    folder: pathlib.Path,
    environment: Mapping[str, str],
    python: str | os.PathLike[str] = sys.executable,
) -> None:
    """Runs blocks as one program, in a process of its own."""
    subprocess.run(
        [python, "-c", _RUN],
        input=json.dumps(list(blocks)),
        text=True,
        cwd=folder,
        env={**environment, "MPLBACKEND": "agg"},
        check=True,
    )
