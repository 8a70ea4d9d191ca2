"""What a process leaves behind when it ends in the middle of work."""

from __future__ import annotations

import subprocess
import sys
import textwrap


def test_interrupted_build_leaves_nothing(tmp_path):
    """Ctrl-C within a build, and the interpreter's exit right after: no scratch stays, whenever it came."""
    code = textwrap.dedent("""
        import signal, sys, threading
        import numpy as np
        import goagnes as ga

        edge_index = np.random.default_rng(0).integers(0, 200_000, (2, 3_000_000))
        fired = []

        def progress(stage, done, total):
            if not fired:
                fired.append(stage)
                signal.raise_signal(signal.SIGINT)

        ga.build(sys.argv[1] + "/store", edge_index=edge_index, memory="48MiB", progress=progress)
    """)
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=120)
    assert "KeyboardInterrupt" in done.stderr, done.stderr
    assert done.returncode in (1, 130, -2)
    assert list(tmp_path.iterdir()) == []


def test_open_loader_at_exit_leaves_nothing(tmp_path):
    """A process that ends within an epoch: the spilled rows go with it."""
    code = textwrap.dedent("""
        import sys
        import goagnes as ga

        ga.generate(sys.argv[1] + "/store", num_nodes=20_000, avg_degree=8, num_features=64, num_classes=4).close()
        store = ga.open(sys.argv[1] + "/store", memory="6MiB")
        loader = ga.NeighborLoader(store, [5, 5], batch_size=50, output="numpy")
        epoch = iter(loader)
        batch = next(epoch)
    """)
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert [path.name for path in tmp_path.iterdir()] == ["store"]
