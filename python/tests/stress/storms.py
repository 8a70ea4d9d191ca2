"""Ctrl-C at random moments, again and again: every call ends, nothing is lost or half done."""

from __future__ import annotations

import os
import random
import shutil
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from world import LONG, digest, graph, make, settle

import goagnes as ga
from goagnes import _native

SHOTS = 200 if LONG else 15  # for each kind of work
HUNG = 60


class Storm:
    """Sends this process SIGINT at random times while it is armed, up to three in a row."""

    LEVELS = 4  # more than the shots in a row

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)
        self._wake = threading.Condition()
        self._due: list[float] = []
        self.sent = self.hits = 0
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        with self._wake:
            while True:
                if not self._due:
                    self._wake.wait()
                elif (left := self._due[0] - time.monotonic()) > 0:
                    self._wake.wait(left)
                else:
                    self._due.pop(0)
                    self.sent += 1
                    os.kill(os.getpid(), signal.SIGINT)

    def over(self, work: Callable[[], object], seconds: float) -> bool:
        """Does work, which takes about so long, in a storm; whether a shot ended it."""
        first = time.monotonic() + self._draw.random() * seconds
        more = [self._draw.random() * 0.03 for _ in range(self._draw.choice([0, 0, 1, 2]))]
        before = self.hits
        with self._wake:
            self._due = [first, *sorted(first + later for later in more)]
            self._wake.notify()
        self._level(work, self.LEVELS)
        return self.hits > before

    def _level(self, work: Callable[[], object], level: int) -> None:
        """Each level catches one shot: those that come while another one is dealt with."""
        try:
            if level == 0:
                work()
            else:
                self._level(work, level - 1)
            with self._wake:
                self._due = []
        except KeyboardInterrupt:
            self.hits += 1


def _works(folder: Path, path: Path, store: ga.Store) -> dict[str, Callable[[], object]]:
    edge_index, x, y, splits = graph()
    new, out = folder / "new", folder / "out"
    arrays = {"edge_index": edge_index, "x": x, "y": y, "splits": splits}
    more = {"memory": "32MiB", "block_size": 4096, "overwrite": True, "progress": False}

    def loader(**options: object) -> ga.NeighborLoader:
        return ga.NeighborLoader(store, [5, 5], "train", batch_size=20, output="numpy", seed=3, **options)

    return {
        "build": lambda: ga.build(new, **arrays, **more).close(),
        "generate": lambda: ga.generate(new, num_nodes=3000, num_features=8, num_classes=4, **more).close(),
        "open": lambda: ga.open(path, "32MiB").close(),
        "verify": lambda: ga.verify(path),
        "epoch": lambda: digest(loader()),
        "epochs left early": lambda: [next(iter(loader())) for _ in range(5)],
        "loaders": lambda: [loader(hyperbatch_size=n).close() for n in (1, 2, 3)],
        "rows": lambda: [store.x[np.arange(0, 3000, 7)] for _ in range(20)],
        "splits": lambda: [store.train_mask.sum() for _ in range(20)],
        "export": lambda: ga.export(store, out, [5, 5], "train", batch_size=50, seed=1, overwrite=True),
        "train": lambda: ga.train(
            store, layers=2, hidden=8, epochs=3, batch_size=100, num_neighbors=[3, 3], progress=False
        ),
    }


def check_storm(folder: Path) -> None:
    path = make(folder)
    store = ga.open(path, "64MiB", 2)
    settings = {"num_neighbors": [5, 5], "input_nodes": "train", "batch_size": 20, "output": "numpy", "seed": 3}
    with ga.NeighborLoader(store, **settings) as loader:
        reference = digest(loader)
    settle(1)
    storm = Storm(7)
    threads = threading.active_count()
    hits = 0
    for name, work in _works(folder, path, store).items():
        seconds = []
        for _ in range(2):
            start = time.monotonic()
            work()
            seconds.append(time.monotonic() - start)
        interrupted = 0
        for _ in range(SHOTS):
            start = time.monotonic()
            interrupted += storm.over(work, min(seconds))
            assert time.monotonic() - start < HUNG, f"{name} took {time.monotonic() - start} s"
        hits += interrupted
        settle(1)
        with ga.NeighborLoader(store, **settings) as loader:
            assert digest(loader) == reference, f"after {name} the store gives other minibatches"
        settle(1)
        for made in (folder / "new", folder / "out"):
            if made.exists():
                if made.name == "new":
                    assert not ga.verify(made)["findings"]
                shutil.rmtree(made)
        left = [entry.name for entry in folder.iterdir() if entry.name != "store"]
        assert not left, f"{name} left {left}"
        print(name, f"{interrupted} of {SHOTS} interrupted")
    assert threading.active_count() <= threads + 1
    assert not ga.verify(path)["findings"]
    assert hits >= SHOTS  # of those at all kinds of work
    store.close()
    settle(0)
    assert _native.open_handles() == 0
