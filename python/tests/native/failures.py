"""Errors and panics of the library reach Python as exceptions, never as a crash."""

from __future__ import annotations

import pickle

from synthetic import Loader, balanced, raises

import goagnes as ga
from goagnes import _native, _tasks
from goagnes._batch import numpy_batch


def check_panic_in_a_task() -> None:
    raises(ga.InternalError, "panic: controltest: asked to", _tasks.run, "panic", {})
    assert _tasks.run("echo", {"a": 1}) == {"a": 1}


def check_panic_in_a_minibatch() -> None:
    loader = Loader(batches=5, panic_at=2)
    raws = loader.raw()
    assert [next(raws)[0], next(raws)[0]] == [0, 1]
    raises(ga.InternalError, "minibatch panicked", next, raws)
    assert next(loader.raw())[0] == 0  # the next epoch


def check_error_in_a_minibatch() -> None:
    loader = Loader(batches=5, fail_at=1)
    epoch = loader.begin()
    raw = _native.next_batch(loader.handle, epoch)
    for _ in range(3):
        raises(ga.DiskError, "minibatch failed", _native.next_batch, loader.handle, epoch)
    del raw
    loader.close()
    balanced()


def check_error_map() -> None:
    """Every class of the library has its exception, with the built-in that one would catch."""
    for name, kind, builtin in (
        ("usage", ga.UsageError, ValueError),
        ("unsupported", ga.UnsupportedError, ValueError),
        ("input", ga.InputError, ValueError),
        ("store", ga.StoreError, OSError),
        ("budget", ga.BudgetError, ValueError),
        ("io", ga.DiskError, OSError),
        ("interrupted", ga.CancelledError, RuntimeError),
        ("closed", ga.ClosedError, ValueError),
        ("internal", ga.InternalError, RuntimeError),
    ):
        error = raises(builtin, "part: other", _tasks.run, "fail", {"class": name, "message": "part: other"})
        assert type(error) is kind
        assert isinstance(error, ga.Error)
        assert error.__cause__ is None
    error = raises(ga.InternalError, "nonesuch: text", _tasks.run, "fail", {"class": "nonesuch", "message": "text"})


def check_text_that_is_not_utf8() -> None:
    raises(ga.InputError, "é\ufffd", _tasks.run, "fail", {"class": "input", "message": "é\0 bad"})


def check_stale_handles() -> None:
    loader = Loader(batches=2)
    epoch = loader.begin()
    raises(ga.UsageError, "is not a store", _native.call, "StoreInfo", loader.handle)
    raises(ga.UsageError, "is not a loader", _native.next_batch, loader.store, epoch)
    raises(ga.UsageError, "no loader with handle 999", _native.next_batch, 999, epoch)
    raises(ga.UsageError, "no store with handle -5", _native.call, "StoreInfo", -5)
    raises(ga.ClosedError, "newer iterator", _native.next_batch, loader.handle, epoch + 1)
    loader.close()
    for _ in range(2):
        loader.close()
        _native.call("CloseLoader", loader.handle)
        _native.call("LeaveEpoch", loader.handle, epoch)
    raises(ga.ClosedError, "the loader is closed", _native.next_batch, loader.handle, epoch)
    raises(ga.ClosedError, "the loader is closed", loader.begin)
    raises(ga.ClosedError, "the store is closed", _native.call, "StoreInfo", loader.store)


def check_timeout() -> None:
    loader = Loader(batches=1, delay=200)
    epoch = loader.begin()
    raises(TimeoutError, "60 ms", _native._data.next, loader.handle, epoch, 60)
    assert _native._data.next(loader.handle, epoch, 2000)[0] == 0


def check_nothing_pickles() -> None:
    loader = Loader(batches=1)
    (raw,) = loader.raw()
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        raises(TypeError, "cannot be pickled", pickle.dumps, raw[6]["x"], protocol)
        raises(TypeError, "cannot be pickled", pickle.dumps, numpy_batch(raw), protocol)
    store = ga.Store("any", loader.store, {"num_nodes": 1, "num_edges": 1})
    raises(TypeError, "cannot be pickled", pickle.dumps, store)


def check_errors_leak_nothing() -> None:
    """Errors over and over leak neither handles nor memory."""
    import resource

    peak = 0
    for turn in range(6000):
        try:
            _native.call("StoreInfo", 10_000)
        except ga.UsageError:
            pass
        else:
            raise AssertionError
        if turn == 1000:
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak
    assert grown < 4096, f"{grown} KiB over 5000 errors"
