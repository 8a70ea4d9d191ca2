"""The command ``goagnes``: becomes the Go program that lies in the package."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def main() -> None:
    """Replaces this process by the program, with the same arguments."""
    program = Path(__file__).parent / "bin" / "goagnes"
    try:
        os.execv(program, ["goagnes", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"goagnes: {program}: {error.strerror}; install goagnes again")
