"""Many threads at once, with both collectors under pressure."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable

import numpy as np
from synthetic import Loader, balanced

from goagnes import _native
from goagnes._batch import numpy_batch


def _together(threads: int, body: Callable[[int], None]) -> None:
    failures: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            body(number)
        except BaseException as error:
            failures.append(error)

    started = [threading.Thread(target=guarded, args=(n,)) for n in range(threads)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    if failures:
        raise failures[0]


def _pressure(threads: int, batches: int) -> None:
    loaders = [Loader(batches=batches, nodes=40, features=4) for n in range(threads)]

    def body(number: int) -> None:
        kept: list[np.ndarray] = []
        expected = 0
        for raw in loaders[number].raw():
            batch = numpy_batch(raw)
            assert batch.index == expected
            assert batch.x[0, 0] == expected
            expected += 1
            kept.append(np.from_dlpack(raw[6]["n_id"]) if expected % 3 else batch.n_id[1:])
            if len(kept) > 20:
                assert kept[0][-1] == 39
                kept = kept[10:]
            if expected % 97 == 0:
                gc.collect(0)
        assert expected == batches

    _together(threads, body)
    for loader in loaders:
        loader.close()
    gc.collect()
    balanced()
    counts = _native.counters()
    assert counts["batches"] == threads * batches
    assert counts["tensors_made"] == 4 * threads * batches
    assert _native.open_handles() == 0


def check_six_threads() -> None:
    _pressure(6, 500)


def check_six_threads_long() -> None:
    """6 threads x 20,000 minibatches. (slow)"""
    _pressure(6, 20_000)


def check_one_loader_many_threads() -> None:
    """Each minibatch goes to exactly one of the threads that share an epoch."""
    loader = Loader(batches=3000, nodes=5, features=2)
    epoch = loader.begin()
    seen: list[list[int]] = [[] for _ in range(6)]

    def body(number: int) -> None:
        while (raw := _native.next_batch(loader.handle, epoch)) is not None:
            assert np.asarray(raw[6]["x"])[0, 0] == raw[0]
            seen[number].append(raw[0])

    _together(6, body)
    assert sorted(index for part in seen for index in part) == list(range(3000))
    assert all(part == sorted(part) for part in seen)


def check_closing_while_waiting() -> None:
    """Closing from another thread ends every wait with ClosedError."""
    import time

    import goagnes as ga

    loader = Loader(batches=2, block_at=0)
    epoch = loader.begin()
    ends: list[float] = []

    def body(number: int) -> None:
        if number == 0:
            time.sleep(0.1)
            _native.call("CloseLoader", loader.handle)
            ends.append(time.monotonic())
            return
        try:
            _native.next_batch(loader.handle, epoch)
        except ga.ClosedError:
            ends.append(time.monotonic())
            return
        raise AssertionError("a minibatch came out of a closed loader")

    _together(4, body)
    assert max(ends) - min(ends) < 0.2


def check_gil_is_released_while_waiting() -> None:
    import time

    loader = Loader(batches=1, delay=300)
    turns = 0
    stop = threading.Event()

    def spin() -> None:
        nonlocal turns
        while not stop.is_set():
            turns += 1
            time.sleep(0.001)

    spinner = threading.Thread(target=spin)
    spinner.start()
    list(loader.raw())
    stop.set()
    spinner.join()
    assert turns > 50, f"another thread ran {turns} times in 300 ms"
