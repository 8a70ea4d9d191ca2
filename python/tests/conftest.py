"""Fixtures of the Python suite."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from overlays import overlay, run_native

# A shell starts background jobs with interrupts ignored, and children inherit that: the tests of
# interruptions would wait for ever.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def double(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory whose package goagnes has the library for tests: it serves the synthetic engine."""
    return overlay(tmp_path_factory.mktemp("double"), testing=True)


@pytest.fixture(scope="session")
def run_case(double: Path) -> Callable[[str, str], None]:
    """Runs one function of native/ in an interpreter of its own; the test fails with what it printed."""

    return lambda module, function: run_native(double, module, function)


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
