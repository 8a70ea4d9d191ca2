"""The interpreter's end, in the middle of everything: at once, silent, and nothing stays on disk."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

from world import make

PREAMBLE = """
import atexit, gc, os, signal, sys, threading, time
import numpy as np
import goagnes as ga
path, folder = sys.argv[1:3]
store = ga.open(path, "4MiB", 2, scratch=folder)
def loader(**more):
    return ga.NeighborLoader(store, [3, 3], "train", batch_size=5, output="numpy", seed=1, **more)
"""

CASES = {
    "live objects": """
        first = loader()
        epoch = iter(first)
        batch = next(epoch)
        column = batch.x[:, 1]
        view = memoryview(next(epoch).n_id)
    """,
    "objects in cycles": """
        class Node: pass
        for _ in range(2):
            node = Node()
            node.self, node.epoch = node, iter(loader(memory="1536KiB"))
            node.batch = next(node.epoch)
    """,
    "objects in a module and in a thread's locals": """
        import types
        module = sys.modules["held"] = types.ModuleType("held")
        module.epoch = iter(loader(memory="1536KiB"))
        module.batch = next(module.epoch)
        local = threading.local()
        local.epoch = iter(loader(memory="1536KiB"))
    """,
    "a daemon thread within an epoch": """
        started = threading.Event()
        def work():
            try:
                while True:
                    for batch in loader():
                        started.set()
            except ga.Error:
                pass  # the loader is closed before the interpreter ends
        threading.Thread(target=work, daemon=True).start()
        started.wait()
    """,
    "daemon threads within everything": """
        def forever(body):
            def run():
                try:
                    while True:
                        body()
                except ga.Error:
                    pass  # the store is closed before the interpreter ends, its tasks are cancelled
            threading.Thread(target=run, daemon=True).start()
        rng = np.random.default_rng(0)
        edges = rng.integers(0, 5000, (2, 50_000))
        forever(lambda: list(loader()))
        forever(lambda: store.x[rng.integers(0, 3000, 500)])
        forever(lambda: ga.build(folder + "/new", edges, memory="16MiB", overwrite=True).close())
        forever(lambda: ga.verify(path))
        forever(lambda: ga.train(store, epochs=1, layers=1, hidden=4, batch_size=50, num_neighbors=[2]))
        time.sleep(0.5)
    """,
    "a thread that is joined at exit": """
        def work():
            for batch in loader():
                time.sleep(0.001)
        threading.Thread(target=work).start()
    """,
    "sys.exit within a loop": """
        for batch in loader():
            if batch.index == 2:
                sys.exit(0)
    """,
    "an exit handler that goes on reading": """
        epoch = iter(loader())
        next(epoch)
        def last():
            assert next(epoch).index == 1
            assert store.num_nodes == 3000
        atexit.register(last)
    """,
    "a finalizer that reads while the interpreter ends": """
        class Last:
            def __init__(self): self.epoch = iter(loader())
            def __del__(self, quiet=ga.Error):
                try: next(self.epoch)
                except (quiet, StopIteration): pass
        last = Last()
    """,
    "os._exit": """
        batch = next(iter(loader()))
        os._exit(0)
    """,
    "an exit of the interpreter while signals come": """
        epoch = iter(loader())
        next(epoch)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        def shoot():
            while True:
                os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=shoot, daemon=True).start()
        time.sleep(0.05)
    """,
}


def check_every_ending(folder: Path) -> None:
    path = make(folder)
    failed = []
    for name, code in CASES.items():
        scratch = folder / "scratch"
        scratch.mkdir()
        done = subprocess.run(
            [
                sys.executable,
                "-X",
                "faulthandler",
                "-W",
                "error",
                "-c",
                PREAMBLE + textwrap.dedent(code),
                path,
                scratch,
            ],
            capture_output=True,
            text=True,
            timeout=60,
        )
        left = sorted(entry.name for entry in scratch.iterdir() if entry.name != "new")
        if name == "os._exit":
            left = []  # nothing can be tidied up; the next open does it
        if (done.returncode, done.stderr, left) != (0, "", []):
            failed.append(f"{name}: status {done.returncode}, left {left}\n{done.stderr}")
        subprocess.run(["rm", "-r", scratch], check=True)
    assert not failed, "\n".join(failed)
