"""Showing how far a task is, on Python's sys.stderr: a bar on a terminal or in a notebook, lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO

from goagnes._arguments import shown

ProgressFunction = Callable[[str, int, int], object]
ProgressArgument = ProgressFunction | bool | None

_BAR_WIDTH = 30
_LINE_SECONDS = 5.0


class _Bar:
    """One line of a terminal, redrawn."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._width = 0

    def __call__(self, stage: str, done: int, total: int) -> None:
        text = stage
        if total > 0:
            filled = _BAR_WIDTH * min(done, total) // total
            text = f"{stage} [{'#' * filled}{'.' * (_BAR_WIDTH - filled)}] {100 * min(done, total) // total:3d} %"
        elif done > 0:
            text = f"{stage} {done:,}"
        self._stream.write("\r" + text.ljust(self._width))
        self._stream.flush()
        self._width = len(text)

    def end(self) -> None:
        if self._width:
            self._stream.write("\r" + " " * self._width + "\r")
            self._stream.flush()


class _Lines:
    """A line at each new stage and every five seconds."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._stage = ""
        self._shown = 0.0

    def __call__(self, stage: str, done: int, total: int) -> None:
        now = time.monotonic()
        if stage == self._stage and now - self._shown < _LINE_SECONDS:
            return
        self._stage, self._shown = stage, now
        share = f" {100 * min(done, total) // total} %" if total > 0 else f" {done:,}" if done > 0 else ""
        self._stream.write(f"goagnes: {stage}{share}\n")
        self._stream.flush()

    def end(self) -> None:
        pass


class _Function:
    """The caller's own function."""

    def __init__(self, function: ProgressFunction) -> None:
        self._function = function

    def __call__(self, stage: str, done: int, total: int) -> None:
        self._function(stage, done, total)

    def end(self) -> None:
        pass


class _Silence:
    def __call__(self, stage: str, done: int, total: int) -> None:
        pass

    def end(self) -> None:
        pass


def _notebook(stream: TextIO) -> bool:
    """Whether what is written shows below a notebook's cell, where a carriage return redraws the line."""
    return type(stream).__module__.partition(".")[0] == "ipykernel"


Display = _Bar | _Lines | _Function | _Silence


def display(progress: ProgressArgument) -> Display:
    """What shows progress.

    None: a bar where standard error (``sys.stderr``) is a terminal or a notebook's, else
    nothing. True: a bar there, lines elsewhere. False: nothing. A function is called with
    ``(stage, done, total)``; total is 0 where it is not known.
    """
    if callable(progress):
        return _Function(progress)
    if progress is not None and not isinstance(progress, bool):
        what = "None, True, False or a function of (stage, done, total)"
        raise TypeError(f"progress={shown(progress)}; it must be {what}")
    stream = sys.stderr
    terminal = stream is not None and (stream.isatty() or _notebook(stream))
    if progress is False or stream is None or (progress is None and not terminal):
        return _Silence()
    return _Bar(stream) if terminal else _Lines(stream)
