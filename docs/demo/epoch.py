"""One step of the demo: read epochs through the Python loader and say what it cost, as JSON.

    python epoch.py STORE MEMORY FANOUT BATCH

Two passes over the same epoch: one timed, which only drops each minibatch as a training loop would;
one that counts the pages the epoch needed (lower_bound.py), with the same bits as the first. Then
the device is measured by direct reads of the store's own largest file.
"""

from __future__ import annotations

import json
import mmap
import os
import random
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from lower_bound import LowerBound

import goagnes as ga


def device_bandwidth(path: Path, seconds: float = 2.0, size: int = 1 << 20, depth: int = 8) -> float | None:
    """Bytes a second of direct reads of `size` bytes at random places, `depth` in flight."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
    except OSError:
        return None  # a file system without direct I/O: there is no device figure to compare with
    blocks = os.fstat(fd).st_size // size
    until = time.perf_counter() + seconds

    def read(worker: int) -> int:
        buffer, draw, done = mmap.mmap(-1, size), random.Random(worker), 0
        while time.perf_counter() < until:
            done += os.preadv(fd, [buffer], draw.randrange(blocks) * size)
        return done

    start = time.perf_counter()
    with ThreadPoolExecutor(depth) as pool:
        total = sum(pool.map(read, range(depth)))
    elapsed = time.perf_counter() - start
    os.close(fd)
    return total / elapsed


def main(path: str, memory: str, fanout: str, batch_size: str) -> None:
    with ga.open(path, memory=memory) as store:
        loader = ga.NeighborLoader(
            store, [int(k) for k in fanout.split(",")], "train",
            batch_size=int(batch_size), shuffle=True, seed=0, output="numpy",
        )  # fmt: skip
        loader.set_epoch(0)
        start = time.perf_counter()
        minibatches = nodes = edges = 0
        for batch in loader:
            minibatches += 1
            nodes += len(batch.n_id)
            edges += len(batch.e_id)
            del batch
        seconds = time.perf_counter() - start
        stats = loader.stats()
        bound = LowerBound(path)
        loader.set_epoch(0)
        for batch in loader:
            bound.add(np.asarray(batch.n_id), np.asarray(batch.e_id))
            del batch
        loader.close()
    largest = max(Path(path).iterdir(), key=lambda file: file.stat().st_size)
    result = {
        "minibatches": minibatches, "nodes": nodes, "edges": edges, "seconds": seconds,
        "bytes_moved": stats["bytes_read"] + stats["bytes_written"],
        "lower_bound_bytes": bound.bytes(), "device_bytes_per_second": device_bandwidth(largest), "stats": stats,
    }  # fmt: skip
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
