"""200 epochs from Python: memory, open files, threads and handles of the library stay as they are.

Both garbage collectors work all along: Go's at a fifth of its usual heap growth, Python's on minibatches
that lie in cycles, of which the library's memory is not given back before the collector finds them.
The run is in an interpreter of its own; a second one leaks on purpose and must be found.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import goagnes as ga

CORA = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "planetoid" / "cora"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CORA.exists(), reason=f"the public graph is not at {CORA}"),
]

# Growth allowed over all epochs after the warm-up: the heaps of two collectors between collections; a
# file; threads, of which Go makes one where all others wait in the system.
ALLOWED = {"rss": 6 << 20, "files": 1, "threads": 3, "handles": 0}

RUN = """
import gc, json, os, re, sys
import goagnes as ga
from goagnes import _native

path, what, epochs, leaks = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4] == "leaks"
collected = 0

def count(phase, info):
    global collected
    collected += phase == "stop"

class Holder:  # of a minibatch, and of itself
    def __init__(self, batch):
        self.batch, self.me = batch, self

def vitals():
    status = open("/proc/self/status").read()
    return {
        "rss": int(re.search(r"VmRSS:\\s+(\\d+)", status)[1]) << 10,
        "files": len(os.listdir("/proc/self/fd")),
        "threads": int(re.search(r"Threads:\\s+(\\d+)", status)[1]),
        "handles": _native.open_handles(),
    }

gc.callbacks.append(count)
gc.set_threshold(20, 5, 5)
seen, kept = [], []
with ga.open(path, memory="96MiB") as store:
    if what == "loader":
        loader = ga.NeighborLoader(store, [10, 10], "train", batch_size=20, shuffle=True, seed=1, output="numpy")
    for epoch in range(epochs):
        if what == "loader":
            for batch in loader:
                holder = Holder(batch)
                if leaks:
                    kept.append(batch.x[:20].copy())
            if epoch % 7 == 0:  # and an epoch that nobody finishes
                for batch in loader:
                    break
            del batch, holder
        else:
            options = {"preset": "citation", "epochs": 1, "num_neighbors": [10, 10], "seed": epoch}
            ga.train(store, model="gcn", progress=False, **options)
        if leaks:
            kept.append(open(os.devnull))
            kept.append(ga.NeighborLoader(store, [1], output="numpy"))
        if epoch % 5 == 4:
            gc.collect()
        seen.append(vitals())
print(json.dumps({"seen": seen, "collected": collected}))
"""


@pytest.fixture(scope="module")
def cora(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("long") / "cora"
    ga.import_dataset(path, CORA, progress=False).close()
    return path


def live(path: Path, what: str, epochs: int, leaks: bool = False) -> dict:
    command = [sys.executable, "-c", RUN, str(path), what, str(epochs), "leaks" if leaks else "-"]
    done = subprocess.run(command, env=dict(os.environ, GOGC="20"), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def growth(seen: list[dict[str, int]]) -> dict[str, float]:
    """The slope by least squares times the epochs, the first quarter being left out as warm-up."""
    late = seen[len(seen) // 4 :]
    return {name: float(np.polyfit(range(len(late)), [v[name] for v in late], 1)[0]) * len(late) for name in late[0]}


def grown(seen: list[dict[str, int]]) -> set[str]:
    return {name for name, n in growth(seen).items() if n > ALLOWED[name]}


@pytest.mark.parametrize("what", ["loader", "train"])
def test_flat(cora, what):
    run = live(cora, what, 200)
    report = {name: (run["seen"][0][name], run["seen"][50][name], run["seen"][-1][name]) for name in ALLOWED}
    print(what, report, growth(run["seen"]), run["collected"])
    assert grown(run["seen"]) == set(), (report, growth(run["seen"]))
    assert run["collected"] >= 100


def test_leaks_are_found(cora):
    assert grown(live(cora, "loader", 60, leaks=True)["seen"]) >= {"rss", "files", "handles"}
