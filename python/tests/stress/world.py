"""What the stress tests share: a small store, minibatches by digest, and what a process holds."""

from __future__ import annotations

import gc
import hashlib
import os
import threading
import time
from pathlib import Path

import numpy as np

import goagnes as ga
from goagnes import _native

#: "long" runs the full lengths, which take minutes; unset: what fits the test suite.
LONG = os.environ.get("GOAGNES_STRESS") == "long"


def graph() -> tuple[np.ndarray, np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    nodes = rng.permutation(3000)
    splits = {"train": nodes[:1000], "val": nodes[1000:1200], "test": nodes[1200:1400]}
    return rng.integers(0, 3000, (2, 20_000)), rng.random((3000, 16), np.float32), rng.integers(0, 4, 3000), splits


def make(folder: Path) -> Path:
    """The store of that graph."""
    path = folder / "store"
    edge_index, x, y, splits = graph()
    ga.build(path, edge_index, x, y, splits=splits, memory="32MiB", block_size=4096).close()
    return path


def digest(loader: ga.NeighborLoader) -> str:
    """Of one epoch."""
    h = hashlib.sha256()
    for batch in loader:
        for name, array in batch.items():
            h.update(name.encode())
            h.update(np.ascontiguousarray(array).tobytes())
    return h.hexdigest()


def settle(handles: int, seconds: float = 20) -> None:
    """Waits until no more stores, loaders and tasks are open than ``handles``."""
    end = time.monotonic() + seconds
    while True:
        gc.collect()
        if _native.open_handles() <= handles:
            return
        assert time.monotonic() < end, f"{_native.open_handles()} stores, loaders and tasks are open, {handles} were"
        time.sleep(0.02)


def balanced() -> dict[str, int]:
    """Every tensor and every exported view that was made is gone."""
    gc.collect()
    counts = _native.counters()
    assert counts["tensors_made"] == counts["tensors_freed"] > 0, counts
    assert counts["exports_made"] == counts["exports_freed"], counts
    return counts


def together(bodies: list) -> None:
    """Runs functions on a thread each; raises what the first of them raised."""
    failures: list[BaseException] = []

    def guarded(body) -> None:
        try:
            body()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(body,)) for body in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
