"""Running native work that takes time: interruptible, with progress.

The work runs on Go's threads. This thread polls it in slices, between which
Python handles signals, so that Ctrl-C cancels it at once.
"""

from __future__ import annotations

import atexit
import json
import threading
from typing import Any

from goagnes import _native
from goagnes._errors import InternalError, from_text
from goagnes._progress import ProgressArgument, display

_SLICE_MILLIS = 50
_STOP_SLICES = 2  # how long a call that Ctrl-C ends waits for its task to end
_FAIL_SLICES = 100  # how long one that an error of the caller's own ends does: what the task locks is free then
_EXIT_MILLIS = 5000  # how long the interpreter's exit waits for tasks to tidy up


@atexit.register
def _drain() -> None:
    """Ends interrupted tasks before the process does: their scratch files would stay behind."""
    _native.close_quietly("Drain", _EXIT_MILLIS)


def run(kind: str, request: dict[str, Any], *, progress: ProgressArgument = False, keep: object = None) -> Any:
    """Does the work named kind and returns its result.

    ``keep`` is whatever holds the memory that the request points at: it stays
    referenced until the task has ended, even where this call is interrupted first.
    """
    show = display(progress)
    task: int = _native.call("Start", kind, json.dumps(request))
    shown: tuple[str, int, int] | None = None
    try:
        while True:
            status = json.loads(_native.call("Poll", task, _SLICE_MILLIS))
            if status["state"] != "running":
                task = 0
                break
            now = (status.get("stage", ""), status["done"], status["total"])
            if now[0] and now != shown:
                show(*now)
                shown = now
    except KeyboardInterrupt:
        _stop(task, keep, interrupted=True)
        raise
    except BaseException:
        _stop(task, keep, interrupted=False)
        raise
    finally:
        show.end()
    if status["state"] == "failed":
        raise from_text(status["error"]) or InternalError(status["error"])
    return status.get("result")


def _stop(task: int, keep: object, *, interrupted: bool) -> None:
    """Cancels a task that nobody waits for any more; it gets some time to tidy up."""
    if task == 0 or _native.forked():
        return
    if interrupted and keep is None:
        _native.call("Abandon", task)  # waits a little itself
        return
    _native.call("Cancel", task)
    if _ended(task, _STOP_SLICES if interrupted else _FAIL_SLICES):
        return
    if keep is None:
        _native.call("Abandon", task)
    else:
        # It still reads the caller's arrays: somebody has to hold them.
        threading.Thread(target=_hold, args=(task, keep), name="goagnes-stop", daemon=True).start()


def _ended(task: int, slices: int) -> bool:
    """Polls up to slices times; the poll that finds the end is the last one allowed."""
    return any(json.loads(_native.call("Poll", task, _SLICE_MILLIS))["state"] != "running" for _ in range(slices))


def _hold(task: int, keep: object) -> None:
    while not _ended(task, 1):
        pass
    del keep
