"""goagnes' loader, bit for bit against the plain sampler, under many settings of the engine.

The oracle sees the raw edges only; the loader sees a store. Every array of every minibatch must be
equal, whatever the block size, node order, compression, stripes, memory, threads, hyperbatch size,
mode or way to the device, and in an export read back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from oracle.sampler import Minibatch, Oracle

import goagnes as ga


@dataclass
class Graph:
    edges: np.ndarray
    num_nodes: int
    x: np.ndarray
    y: np.ndarray
    epochs: dict[str, list[Minibatch]] = field(default_factory=dict)

    @classmethod
    def of(cls, edges, num_nodes: int, seed: int = 0) -> Graph:
        rng = np.random.default_rng(seed)
        x = rng.standard_normal((num_nodes, 7), np.float32)  # a row that crosses pages
        y = rng.integers(-1, 5, num_nodes)
        return cls(np.asarray(edges, np.int64).reshape(2, -1), num_nodes, x, y)

    def build(self, path: Path, stripes: int = 0, **options) -> ga.Store:
        if stripes:
            options["stripes"] = [str(path.with_name(f"ssd{i}")) for i in range(stripes)]
            for directory in options["stripes"]:
                Path(directory).mkdir()
        arrays = {"edge_index": self.edges, "x": self.x, "y": self.y, "num_nodes": self.num_nodes}
        ga.build(str(path), **arrays, **options).close()
        return ga.open(str(path))

    def want(self, fanouts, nodes, **options) -> list[Minibatch]:
        """The oracle's minibatches of an epoch, drawn once for all settings of the engine."""
        given = nodes if nodes is None else (nodes.dtype.str, nodes.tobytes())
        key = repr((fanouts, given, sorted(options.items())))
        if key not in self.epochs:
            oracle = Oracle(self.edges, self.num_nodes, self.x, self.y)
            self.epochs[key] = list(oracle.epoch(fanouts, nodes, **options))
        return self.epochs[key]


def random_graph(num_nodes: int, num_edges: int, seed: int) -> Graph:
    rng = np.random.default_rng(seed)
    return Graph.of(rng.integers(0, num_nodes, (2, num_edges)), num_nodes, seed)


def hubs() -> Graph:
    """Two hubs: one within a 32-bit draw, one beyond 4096 in-edges, over several 4 KiB blocks."""
    rng = np.random.default_rng(5)
    n = 900
    first = np.stack([rng.integers(0, n, 9_000), np.full(9_000, 17)])
    second = np.stack([rng.integers(0, n, 4_096), np.full(4_096, 4)])
    rest = rng.integers(0, n, (2, 6_000))
    edges = np.concatenate([first, second, rest], axis=1)
    return Graph.of(edges[:, rng.permutation(edges.shape[1])], n)


def parallel_and_loops() -> Graph:
    """Every edge three times, loops on all nodes, in a scrambled order."""
    rng = np.random.default_rng(6)
    pairs = rng.integers(0, 40, (2, 150))
    edges = np.concatenate([pairs, pairs, pairs, np.tile(np.arange(40), (2, 1))], axis=1)
    return Graph.of(edges[:, rng.permutation(edges.shape[1])], 40)


GRAPHS = {
    "random": lambda: random_graph(500, 6_000, 1),
    "sparse-isolated": lambda: random_graph(400, 250, 2),
    "hubs": hubs,
    "parallel-loops": parallel_and_loops,
    "no-edges": lambda: Graph.of(np.zeros((2, 0), np.int64), 9),
    "one-node": lambda: Graph.of([[0, 0], [0, 0]], 1),
}

STORES = {
    "defaults": {},
    "original-4KiB": {"order": "original", "block_size": "4KiB"},
    "degree-4KiB": {"order": "degree", "block_size": "4KiB"},
    "degree-64KiB": {"order": "degree", "block_size": "64KiB"},
    "bfs-4KiB": {"order": "bfs", "block_size": "4KiB"},
    "zstd-16KiB": {"order": "degree", "block_size": "16KiB", "compression": "zstd"},
    "stripes-4KiB": {"order": "bfs", "block_size": "4KiB", "stripes": 3},
    "visit-16KiB": {"order": "visit", "block_size": "16KiB", "compression": "zstd:1", "splits": {"train": [0]}},
}


@pytest.fixture(scope="module", params=GRAPHS)
def graph(request) -> Graph:
    return GRAPHS[request.param]()


IN_CHECK = ("defaults", "stripes-4KiB", "visit-16KiB")  # every setting in one of them; the others take longer


@pytest.fixture(
    scope="module",
    params=[name if name in IN_CHECK else pytest.param(name, marks=pytest.mark.slow) for name in STORES],
)
def store(request, graph, tmp_path_factory):
    built = graph.build(tmp_path_factory.mktemp("store") / "s", **STORES[request.param])
    yield built
    built.close()


def same(batch, want: Minibatch, what: str) -> None:
    """Every array equal, with PyG's shapes and dtypes."""
    for name in ("n_id", "e_id", "input_id", "edge_index"):
        got = np.asarray(batch[name])
        assert got.dtype == np.int64, f"{what}: {name} is {got.dtype}"
        assert got.shape == getattr(want, name).shape, f"{what}: {name} has shape {got.shape}"
        assert np.array_equal(got, getattr(want, name)), f"{what}: {name}"
    assert list(batch.num_sampled_nodes) == want.num_sampled_nodes, what
    assert list(batch.num_sampled_edges) == want.num_sampled_edges, what
    assert batch.batch_size == len(want.input_id), what
    for name in ("x", "y"):
        got, rows = np.asarray(batch[name]), getattr(want, name)
        assert got.dtype == rows.dtype, f"{what}: {name}"
        assert np.array_equal(got, rows), f"{what}: {name}"


def compare(store, graph: Graph, epochs: int = 1, seed: int = 42, **options) -> int:
    """Compare whole epochs; returns how many minibatches were compared."""
    engine = {name: options.pop(name) for name in ("hyperbatch_size", "mode", "memory", "io") if name in options}
    fanouts, nodes = options.pop("num_neighbors"), options.pop("input_nodes", None)
    compared = 0
    with ga.NeighborLoader(
        store, num_neighbors=fanouts, input_nodes=nodes, seed=seed, output="numpy", **options, **engine
    ) as loader:
        for epoch in range(epochs):
            want = graph.want(fanouts, nodes, epoch=epoch, seed=seed, **options)
            assert len(loader) == len(want)
            got = 0
            for batch in loader:
                same(batch, want[got], f"epoch {epoch} minibatch {got}")
                got += 1
            assert got == len(want)
            compared += got
    return compared


@pytest.mark.parametrize("fanouts", [[3], [10, 5], [-1, 2, 4], [2, 0, 3], [200, 4500]], ids=str)
def test_every_node(store, graph, fanouts):
    compare(store, graph, num_neighbors=fanouts, input_nodes=None, batch_size=64)


def test_two_shuffled_epochs(store, graph):
    nodes = np.arange(graph.num_nodes)[::-2].copy()
    assert compare(store, graph, 2, num_neighbors=[4, 3], input_nodes=nodes, batch_size=16, shuffle=True) >= 2


def test_drop_last(store, graph):
    compare(store, graph, num_neighbors=[2, 2], batch_size=7, drop_last=True, shuffle=True)


def test_mask(store, graph):
    mask = np.arange(graph.num_nodes) % 3 == 0
    compare(store, graph, num_neighbors=[3, 3], input_nodes=mask, batch_size=10, shuffle=True)


def test_repeated_seeds(store, graph):
    """Occurrences keep their own local ids and draw independently; neighbours go to the first."""
    nodes = np.arange(graph.num_nodes).repeat(3)[:60]
    nodes = np.concatenate([nodes, nodes[:1], [graph.num_nodes - 1] * 2])
    compare(store, graph, 2, num_neighbors=[3, 2], input_nodes=nodes, batch_size=25, shuffle=True)


@pytest.mark.parametrize(
    "settings",
    [
        {"hyperbatch_size": 1},
        {"hyperbatch_size": 3},
        {"hyperbatch_size": 1000},
        {"mode": "agnes-no"},
        {"mode": "agnes-paper"},
        {"mode": "agnes-paper", "hyperbatch_size": 1},
        {"io": "pread"},
        {"io": "buffered", "mode": "agnes-paper"},
    ],
    ids=str,
)
def test_engine_settings_change_nothing(store, graph, settings):
    compare(store, graph, 2, num_neighbors=[5, 5], batch_size=32, shuffle=True, **settings)


def test_read_export(store, graph, tmp_path):
    """An export of two epochs, written and read back."""
    nodes = np.arange(0, graph.num_nodes, 3)
    options = {"batch_size": 20, "seed": 6, "shuffle": True}
    ga.export(store, tmp_path / "out", [5, 4], nodes, first_epoch=1, epochs=2, progress=False, **options)
    read = ga.read_export(tmp_path / "out", output="numpy")
    assert read.epochs == [1, 2]
    for epoch in read.epochs:
        want = graph.want([5, 4], nodes, epoch=epoch, **options)
        for m, (batch, expected) in enumerate(zip(read.epoch(epoch), want, strict=True)):
            same(batch, expected, f"exported epoch {epoch} minibatch {m}")


@pytest.mark.parametrize("seed", [0, 1, 2**32, 2**64 - 1])
def test_seeds(store, graph, seed):
    compare(store, graph, seed=seed, num_neighbors=[3, 3], batch_size=50, shuffle=True)


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("memory", ["24MiB", "1GiB"])
def test_memory_and_threads_change_nothing(tmp_path, memory, threads):
    """A store larger than its memory, against the oracle."""
    graph = random_graph(20_000, 200_000, 8)
    graph.x = np.random.default_rng(9).standard_normal((20_000, 500), np.float32)  # 40 MB
    graph.build(tmp_path / "s", block_size="64KiB").close()
    with ga.open(str(tmp_path / "s"), memory=memory, num_threads=threads) as store:
        nodes = np.arange(0, 20_000, 9)
        compare(store, graph, num_neighbors=[5, 5], input_nodes=nodes, batch_size=100, shuffle=True)


def test_set_epoch(tmp_path):
    graph = random_graph(200, 2_000, 3)
    with graph.build(tmp_path / "s") as store:
        loader = ga.NeighborLoader(store, [3, 3], batch_size=50, shuffle=True, seed=5, output="numpy")
        for epoch in (7, 0, 7):
            loader.set_epoch(epoch)
            want = graph.want([3, 3], None, batch_size=50, seed=5, epoch=epoch, shuffle=True)
            for batch, expected in zip(loader, want, strict=True):
                same(batch, expected, f"epoch {epoch}")
        loader.close()
