"""Six threads on one store, both collectors at work all the time: what is handed out comes back."""

from __future__ import annotations

import functools
import gc
import itertools
import mmap
import os
import threading
import time
from pathlib import Path

import numpy as np
from world import LONG, balanced, make, together

import goagnes as ga
from goagnes import _native

THREADS = 6


def check_six_threads(folder: Path) -> None:
    """Six threads, each a loader of its own. (GOGC=1)"""
    _pressure(folder, 20_000 if LONG else 400, [np.asarray, np.from_dlpack, memoryview, _copied])


def check_six_threads_of_torch(folder: Path) -> None:
    """The same through torch. (GOGC=1) (torch)"""
    import torch

    _pressure(folder, 20_000 if LONG else 400, [torch.from_dlpack, np.asarray, _copied, _dropped])


def _copied(tensor):
    """A DLPack capsule of memory of its own."""
    return tensor.__dlpack__(max_version=(1, 0), copy=True)


def _dropped(tensor):
    """A capsule that nobody takes."""
    tensor.__dlpack__()
    return tensor


def _pressure(folder: Path, minibatches: int, exports: list) -> None:
    assert os.environ["GOGC"] == "1"
    path = make(folder)
    store = ga.open(path, "256MiB", 2)
    before = store.info()["memory_by_use"]
    maps = _slabs()
    stop = threading.Event()
    collected = 0

    def collect() -> None:
        nonlocal collected
        while not stop.is_set():
            cycle: list = [np.zeros(3)]
            cycle.append(cycle)
            del cycle
            gc.collect()
            collected += 1
            time.sleep(0.002)

    def body(number: int) -> None:
        loader = ga.NeighborLoader(store, [3, 2], "train", batch_size=2, shuffle=True, seed=number, output="numpy")
        kinds = itertools.cycle(exports)
        kept: list = []
        left = minibatches
        while left > 0:
            epoch = loader.__iter__()
            while left > 0:
                raw = _native.next_batch(epoch._handle, epoch._number)
                if raw is None:
                    break
                left -= 1
                ids = np.asarray(raw[6]["n_id"])
                rows = np.asarray(raw[6]["x"])
                assert len(ids) == len(rows) == raw[2]
                assert ids.min() >= 0 and ids.max() < 3000
                view = next(kinds)(raw[6]["x" if left % 2 else "edge_index"])
                kept.append((view, ids[:1], int(ids[0])))
                if left % 5 == 0:
                    kept.append((kept, raw[6]["y"], -1))  # a cycle that only the collector ends
                if len(kept) > 12:
                    assert all(first < 0 or part[0] == first for _, part, first in kept)
                    kept = []
        loader.close()

    collector = threading.Thread(target=collect)
    collector.start()
    try:
        together([functools.partial(body, n) for n in range(THREADS)])
    finally:
        stop.set()
        collector.join()
    counts = balanced()
    assert counts["batches"] == THREADS * minibatches, counts
    assert counts["exports_made"] > THREADS * minibatches // 4, counts
    assert collected > 5
    # The loaders' memory has come back to the budget, and every slab to the system.
    assert store.info()["memory_by_use"] == before
    store.close()
    gc.collect()
    assert _native.open_handles() == 0
    assert _slabs() <= maps, "mappings are left"
    print(f"{counts} {collected} collections")


def _slabs() -> int:
    """Anonymous shared or private mappings of at least a page that no library made: a count to compare."""
    with open("/proc/self/smaps_rollup") as file:
        for line in file:
            if line.startswith("Anonymous:"):
                return int(line.split()[1]) * 1024 // (64 * mmap.PAGESIZE * 64)
    raise AssertionError("smaps_rollup has no Anonymous")
