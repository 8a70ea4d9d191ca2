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


def test_nothing_of_python_runs_when_objects_are_collected(store_path):
    """Ctrl-C within a finalizer written in Python is printed and forgotten: ours take no step there."""
    code = textwrap.dedent("""
        import gc, sys
        import goagnes as ga
        from goagnes import _native

        store = ga.open(sys.argv[1], "64MiB")
        loader = ga.NeighborLoader(store, [5], "train", batch_size=20, output="numpy")
        epoch = iter(loader)
        assert next(epoch) is not None
        steps = []

        def note(frame, event, argument):
            if event == "call":
                steps.append(frame.f_code.co_name)

        def collected(last):
            sys.setprofile(note)
            last.clear()
            sys.setprofile(None)
            return steps

        open_before = _native.open_handles()
        last = [epoch]; del epoch
        assert collected(last) == [], steps
        last = [loader]; del loader
        assert collected(last) == [], steps
        assert _native.open_handles() == open_before - 1
        cycle = [ga.NeighborLoader(store, [5], "train", output="numpy")]
        cycle.append(cycle)
        last = [store]; del store, cycle
        gc.disable()
        sys.setprofile(note)
        last.clear()
        gc.collect()
        sys.setprofile(None)
        assert steps == [], steps
        assert _native.open_handles() == 0
    """)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, str(store_path)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
