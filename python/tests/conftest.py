"""Fixtures of the Python suite."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]

# A shell starts background jobs with interrupts ignored, and children inherit that: the tests of
# interruptions would wait for ever.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _builder():
    spec = importlib.util.spec_from_file_location("goagnes_build", ROOT / "capi" / "build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def double(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory whose package goagnes has the library for tests: it serves the synthetic engine."""
    if importlib.util.find_spec("pybindgen") is None:
        pytest.skip(f"the library for tests cannot be built: pybindgen is not installed in {sys.prefix}")
    if shutil.which("go") is None or not (ROOT / "go.mod").exists():
        pytest.skip("the library for tests cannot be built: no Go tool or no source tree")
    overlay = tmp_path_factory.mktemp("double")
    package = overlay / "goagnes"
    shutil.copytree(ROOT / "python" / "goagnes", package, ignore=shutil.ignore_patterns("*.so", "bin", "__pycache__"))
    builder = _builder()
    builder.library(package / "_goagnes.abi3.so", testing=True)
    metadata = overlay / f"goagnes-{builder.version()}.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text(f"Metadata-Version: 2.1\nName: goagnes\nVersion: {builder.version()}\n")
    return overlay


@pytest.fixture(scope="session")
def run_case(double: Path) -> Callable[[str, str], None]:
    """Runs one function of native/ in an interpreter of its own; the test fails with what it printed."""

    def run(module: str, function: str) -> None:
        env = dict(os.environ, PYTHONPATH=os.pathsep.join([str(double), str(ROOT / "python" / "tests" / "native")]))
        env["PYTHONWARNINGS"] = "error"
        code = f"import {module}; {module}.{function}()"
        command = [sys.executable, "-X", "faulthandler", "-c", code]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
        if done.returncode != 0:
            pytest.fail(f"exit status {done.returncode}\n{done.stdout}{done.stderr}", pytrace=False)

    return run


@pytest.fixture(scope="session")
def graph() -> SimpleNamespace:
    """A small random graph: 300 nodes, 3000 edges, 5 features, 4 classes, isolated nodes and parallel edges."""
    rng = np.random.default_rng(0)
    edge_index = rng.integers(0, 280, (2, 3000))
    edge_index[:, 100:110] = edge_index[:, :10]
    x = rng.standard_normal((300, 5), dtype=np.float32)
    y = rng.integers(-1, 4, 300)
    train = rng.permutation(300)[:90]
    mask = np.zeros(300, dtype=bool)
    mask[::7] = True
    return SimpleNamespace(edge_index=edge_index, x=x, y=y, splits={"train": train, "val": mask}, num_nodes=300)


@pytest.fixture(scope="session")
def store_path(graph: SimpleNamespace, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of that graph."""
    import goagnes as ga

    path = tmp_path_factory.mktemp("store") / "small"
    ga.build(path, graph.edge_index, graph.x, graph.y, splits=graph.splits, memory="64MiB").close()
    return path


@pytest.fixture
def store(store_path: Path):
    """The store, open, and closed after the test with nothing left behind."""
    import goagnes as ga

    with ga.open(store_path, memory="64MiB") as opened:
        yield opened
