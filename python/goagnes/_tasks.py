"""Running native work that takes time: interruptible, with progress.

The work runs on Go's threads. This thread polls it in slices, between which
Python handles signals, so that Ctrl-C cancels it at once.

Ctrl-C may come between any two steps of this file, and once more while the first is
dealt with. So that neither a task nor what it made is lost then, and no memory is let
go that a task still reads, every task is listed from before it starts until it is known
to have ended; what the native calls return is put into its entry within one step of the
interpreter (``extend(map(…))``); and the next call ends what an interrupted one left.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

from goagnes import _native
from goagnes._errors import InternalError, from_native, from_text
from goagnes._progress import ProgressArgument, display

_SLICE_MILLIS = 50
_STOP_SLICES = 2  # how long a call that Ctrl-C ends waits for its task to end
_FAIL_SLICES = 100  # how long one that an error of the caller's own ends does: what the task locks is free then
_EXIT_MILLIS = 5000  # how long the interpreter's exit waits for tasks to tidy up


@atexit.register
def _drain() -> None:
    """Closes what is open and ends interrupted tasks before the process does: their scratch files would stay behind."""
    try:
        _native.close_quietly("CloseAll")
    finally:
        _native.close_quietly("Drain", _EXIT_MILLIS)


class _Call:
    """What a running call of :func:`run` holds; with its frame it goes."""


class _Task:
    """A task from before its start until it is known to have ended."""

    def __init__(self, kind: str, keep: object, call: _Call) -> None:
        self.kind = kind
        self.keep = keep
        self.call = weakref.ref(call)
        self.left = False  # its call is being left, though its frame may live on in a traceback
        self.handle: list[int] = []
        self.answer: deque[str] = deque(maxlen=1)

    def start(self, request: dict[str, Any]) -> None:
        try:
            self.handle.extend(map(_native.bound("Start"), (self.kind,), (json.dumps(request),)))
        except RuntimeError as error:
            raise from_native(error) from None

    def poll(self, millis: int) -> dict[str, Any]:
        """Its state; once it has ended, what the poll that told so has said."""
        if not self.answer or json.loads(self.answer[0])["state"] == "running":
            try:
                self.answer.extend(map(_native.bound("Poll"), self.handle, (millis,)))
            except RuntimeError as error:
                raise from_native(error) from None
        return dict(json.loads(self.answer[0]))

    def undo(self, result: Any) -> None:
        """Closes what a task has opened that nobody takes."""
        for kind, name, close in (("open", "store", "CloseStore"), ("loader", "loader", "CloseLoader")):
            if self.kind == kind and isinstance(result, dict) and name in result:
                _native.close_quietly(close, int(result[name]))

    def ended(self, millis: int) -> bool:
        """Waits for the end of a task whose result nobody takes, and takes it off the list then."""
        if self.handle:
            try:
                status = self.poll(millis)
            except Exception:  # another thread saw its end
                status = {"state": "gone"}
            if status["state"] == "running":
                return False
            self.undo(status.get("result"))
        _tasks.discard(self)
        return True


_tasks: set[_Task] = set()


def run(
    kind: str,
    request: dict[str, Any],
    *,
    progress: ProgressArgument = False,
    keep: object = None,
    adopt: Callable[[Any], Any] | None = None,
) -> Any:
    """Does the work named kind and returns its result.

    ``keep`` is whatever holds the memory that the request points at: it stays
    referenced until the task has ended, even where this call is interrupted first.
    ``adopt`` makes an object that owns the result (an opened store); where it is
    interrupted, the result is given back.
    """
    _end_what_was_left()
    show = display(progress)
    shown: tuple[str, int, int] | None = None
    call = _Call()
    task = _Task(kind, keep, call)
    _tasks.add(task)
    try:
        task.start(request)
        while (status := task.poll(_SLICE_MILLIS))["state"] == "running":
            now = (status.get("stage", ""), status["done"], status["total"])
            if now[0] and now != shown:
                show(*now)
                shown = now
        if status["state"] == "failed":
            raise from_text(status["error"]) or InternalError(status["error"])
        result = status.get("result")
        made = result if adopt is None else adopt(result)
        _tasks.discard(task)
        return made
    except BaseException as error:
        task.left = True
        _stop(task, interrupted=isinstance(error, KeyboardInterrupt))
        raise
    finally:
        show.end()


def _end_what_was_left() -> None:
    """Cancels the tasks of calls that were interrupted twice, and closes what they had opened."""
    if not _tasks or _native.forked():
        return
    for task in list(_tasks):
        if task.left or task.call() is None:
            with contextlib.suppress(Exception):
                for handle in task.handle:
                    _native.call("Cancel", handle)
            task.ended(0)


def _stop(task: _Task, *, interrupted: bool) -> None:
    """Cancels a task that nobody waits for any more; it gets some time to tidy up."""
    if _native.forked():
        return
    if not task.handle or json.loads((task.answer or ('{"state": ""}',))[0])["state"] in ("done", "failed"):
        task.ended(0)
        return
    if interrupted and task.keep is None:
        _abandon(task)  # waits a little itself
        return
    _native.call("Cancel", task.handle[0])
    if any(task.ended(_SLICE_MILLIS) for _ in range(_STOP_SLICES if interrupted else _FAIL_SLICES)):
        return
    if task.keep is None:
        _abandon(task)
    else:
        # It still reads the caller's arrays: somebody has to hold them.
        threading.Thread(target=_hold, args=(task,), name="goagnes-stop", daemon=True).start()


def _abandon(task: _Task) -> None:
    _native.call("Abandon", task.handle[0])  # closes itself what the task has opened
    _tasks.discard(task)


def _hold(task: _Task) -> None:
    while not task.ended(_SLICE_MILLIS):
        pass
