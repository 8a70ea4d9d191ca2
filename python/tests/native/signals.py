"""Ctrl-C ends every wait within 200 ms and leaves things usable."""

from __future__ import annotations

import json
import signal
import time

from synthetic import Loader, balanced, interrupt_after, raises

import goagnes as ga
from goagnes import _native, _tasks

LIMIT = 0.2


def check_wait_for_a_minibatch() -> None:
    loader = Loader(batches=3, delay=700)
    epoch = loader.begin()
    for expected in range(3):
        sent = interrupt_after(0.1)
        raises(KeyboardInterrupt, "", _native.next_batch, loader.handle, epoch)
        assert time.monotonic() - sent[0] < LIMIT
        raw = _native.next_batch(loader.handle, epoch)  # the interrupted minibatch is not lost
        assert raw is not None
        assert raw[0] == expected
    assert _native.next_batch(loader.handle, epoch) is None
    del raw
    loader.close()
    balanced()


def check_task() -> None:
    for keep in (None, bytearray(10)):
        sent = interrupt_after(0.1)
        raises(KeyboardInterrupt, "", _tasks.run, "sleep", {}, keep=keep)
        assert time.monotonic() - sent[0] < LIMIT
    _gone()


def check_task_that_does_not_stop() -> None:
    """The call returns in time; the arrays are held until the task has ended."""
    import gc
    import weakref

    class Memory:
        pass

    memory = Memory()
    alive = weakref.ref(memory)
    sent = interrupt_after(0.05)
    raises(KeyboardInterrupt, "", _tasks.run, "ignore", {"millis": 600}, keep=memory)
    assert time.monotonic() - sent[0] < LIMIT
    del memory
    gc.collect()
    assert alive() is not None
    _gone()
    time.sleep(0.1)
    gc.collect()
    assert alive() is None


def _gone() -> None:
    for _ in range(200):
        if _native.open_handles() == 0:
            return
        time.sleep(0.01)
    raise AssertionError(f"{_native.open_handles()} handles are left")


def check_open() -> None:
    """An opening that is interrupted closes the store when it comes."""
    sent = interrupt_after(0.1)
    raises(KeyboardInterrupt, "", _tasks.run, "open", {"path": "slow"})
    assert time.monotonic() - sent[0] < LIMIT
    time.sleep(1)
    _gone()


def check_progress_function_that_raises() -> None:
    def progress(stage: str, done: int, total: int) -> None:
        raise OSError(f"{stage} {total}")

    raises(OSError, "sleep 5000", _tasks.run, "sleep", {"millis": 5000}, progress=progress)
    _gone()


def check_progress_is_reported() -> None:
    seen: list[tuple[str, int, int]] = []
    result = _tasks.run("sleep", {"millis": 300}, progress=lambda *args: seen.append(args))
    assert result == {"slept": 300}
    assert len(seen) >= 3
    assert seen == sorted(seen)
    assert all(stage == "sleep" and total == 300 for stage, _, total in seen)


def check_cancelled_from_elsewhere() -> None:
    """A task that ends by cancellation without Ctrl-C is CancelledError."""
    task = _native.call("Start", "sleep", "{}")
    _native.call("Cancel", task)
    status = {"state": "running"}
    while status["state"] == "running":
        status = json.loads(_native.call("Poll", task, 50))
    assert status["error"].startswith("interrupted: ")
    raises(
        ga.CancelledError,
        "cancelled elsewhere",
        _tasks.run,
        "fail",
        {"class": "interrupted", "message": "cancelled elsewhere"},
    )


def check_python_keeps_its_handlers() -> None:
    """The Go runtime leaves SIGINT to Python, and a handler of the user's runs during a wait."""
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    seen: list[float] = []
    signal.signal(signal.SIGINT, lambda *_: seen.append(time.monotonic()))
    loader = Loader(batches=1, delay=500)
    sent = interrupt_after(0.1)
    assert [raw[0] for raw in loader.raw()] == [0]
    assert seen[0] - sent[0] < LIMIT
