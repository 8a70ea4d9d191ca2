"""Rows, ids, in-edges, masks and splits of single nodes, held to numpy on the imported arrays."""

from __future__ import annotations

import importlib.util
import threading
import warnings

import numpy as np
import pytest

import goagnes as ga
from goagnes import _native

DTYPES = ["float16", "float32"]
LABELS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


def keys(n):
    rng = np.random.default_rng(1)
    mask = rng.random(n) < 0.3
    return [
        0,
        -1,
        np.int64(n - 1),
        slice(None),
        slice(10, 20),
        slice(None, None, -1),
        slice(-5, None, 2),
        slice(50, 10),
        slice(n - 1, None, -70),
        [],
        [3],
        [3, 3, 0, -1, n - 1],
        (3, 4),
        np.arange(n)[::-1],
        rng.integers(-n, n, 2000),
        rng.integers(0, n, 5).astype(np.uint8),
        mask,
        list(mask),
        np.zeros(n, dtype=bool),
        ...,
    ]


def held_equal(array, numpy_array):
    for key in keys(len(numpy_array)):
        key = list(key) if isinstance(key, tuple) else key
        got, want = array[key], numpy_array[key]
        assert got.dtype == want.dtype and got.shape == want.shape, key
        assert np.array_equal(got, want), key
    assert np.array_equal(np.asarray(array), numpy_array)


@pytest.mark.parametrize("order", ["original", "degree"])
def test_rows(graph, tmp_path, order):
    with ga.build(
        tmp_path / "s", graph.edge_index, graph.x, graph.y, splits=graph.splits, order=order, memory="64MiB"
    ) as store:
        for array, want in ((store.x, graph.x), (store.y, graph.y)):
            assert array.shape == want.shape and array.ndim == want.ndim and len(array) == len(want)
            assert array.dtype == want.dtype and array.nbytes == want.nbytes and array.size == want.size
            held_equal(array, want)
        assert np.array_equal(store.x[[4, 2], 1:3], graph.x[[4, 2], 1:3])
        assert np.array_equal(store.x[..., 0], graph.x[..., 0])
        assert store.x[7, 2] == graph.x[7, 2]
        assert [row.tolist() for row in store.x] == graph.x.tolist()
        assert np.asarray(store.y, dtype=np.float64).dtype == np.float64
        assert list(store.arrays) == ["x", "y"]
        assert repr(store.x) == "<goagnes.NodeArray 'x' (300, 5) float32>"
        with pytest.raises(ValueError, match="copy"):
            np.asarray(store.x, copy=False)


@pytest.mark.parametrize("dtype", DTYPES)
def test_feature_types(graph, tmp_path, dtype):
    x = graph.x.astype(dtype)[:, :, None].repeat(2, axis=2)
    with ga.build(tmp_path / "s", graph.edge_index, x, order="degree", memory="64MiB") as store:
        assert store.x.shape == (300, 5, 2)
        held_equal(store.x, x)


@pytest.mark.parametrize("dtype", LABELS)
def test_label_types(graph, tmp_path, dtype):
    y = np.maximum(graph.y, 0).astype(dtype)
    with ga.build(tmp_path / "s", graph.edge_index, graph.x, y, order="degree", memory="64MiB") as store:
        held_equal(store.y, y)


def test_absent(graph, tmp_path):
    with ga.build(tmp_path / "s", graph.edge_index, num_nodes=400, memory="64MiB") as store:
        assert store.x is None and store.y is None and store.train_mask is None
        assert dict(store.arrays) == {}
        sources, edges = store.neighbors(399)
        assert len(sources) == len(edges) == 0 and sources.dtype == np.int64


@pytest.mark.parametrize(
    ("key", "error", "text"),
    [
        (300, IndexError, "node 300 at position 0"),
        (-301, IndexError, "node -301"),
        ([5, 300], IndexError, "node 300 at position 1"),
        (np.zeros(299, dtype=bool), IndexError, "length 299"),
        ([1.5], ga.InputError, "float64"),
        (([1, 2], [0, 1]), ga.UnsupportedError, "after the nodes of x"),
        ([[1, 2]], ga.InputError, "shape"),
        (np.array([2**63], dtype=np.uint64), ga.InputError, "no id"),
    ],
)
def test_wrong_keys(store, key, error, text):
    with pytest.raises(error, match=text):
        store.x[key]


def test_larger_than_the_budget(store_path):
    with ga.open(store_path, memory="2MiB") as store:
        with pytest.raises(ga.BudgetError, match=r"needs 20,000,000 bytes, .* set memory to 20000000"):
            store.x[np.zeros(1_000_000, dtype=np.int64)]
        assert len(store.x[np.zeros(90_000, dtype=np.int64)]) == 90_000


def test_closed(store_path):
    store = ga.open(store_path)
    x = store.x
    store.close()
    for use in (
        lambda: x[0],
        lambda: store.neighbors(1),
        lambda: store.train_mask,
        lambda: store.set_split("a", [1]),
        lambda: store.original_ids([1]),
    ):
        with pytest.raises(ga.ClosedError):
            use()


def test_reading_within_an_epoch(store, graph):
    """A loader may have taken the whole budget: rows are read all the same."""
    for batch in ga.NeighborLoader(store, [5, 5], batch_size=50, output="numpy"):
        assert np.array_equal(store.y[batch.n_id], graph.y[batch.n_id])


def test_threads(store, graph):
    failed = []

    def work(seed):
        ids = np.random.default_rng(seed).integers(0, 300, 500)
        for _ in range(10):
            if not np.array_equal(store.x[ids], graph.x[ids]):
                failed.append(seed)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert _native.open_handles() == 1


def test_neighbors(store, graph):
    for v in range(300):
        sources, edges = store.neighbors(v)
        want = np.flatnonzero(graph.edge_index[1] == v)
        assert np.array_equal(edges, want) and np.array_equal(sources, graph.edge_index[0, want])
    for v in (-1, 300, 1.5, True, "1"):
        with pytest.raises(ga.UsageError, match="node ids of" if type(v) is int else "is not an integer"):
            store.neighbors(v)


def test_integers_without_dimensions(store, graph):
    """Arrays of no dimension index as their integer does, as in numpy; those of bool and float do not."""
    for one in (np.array(3), np.array(3, ">i2"), np.uint8(3), np.array(3)[()]):
        np.testing.assert_array_equal(store.x[one], graph.x[3])
        assert store.x[one].shape == graph.x[one].shape == (5,)
        assert store.x[one, one] == graph.x[3, 3]
        assert store.neighbors(one)[0].tolist() == store.neighbors(3)[0].tolist()
        assert store.original_ids(one) == store.dense_ids(one) == 3
        assert type(store.original_ids(one)) is int
    np.testing.assert_array_equal(store.x[np.array(-1)], graph.x[-1])
    for wrong in (np.array(True), np.array(1.0), np.bool_(True), True, 1.0):
        with pytest.raises((ga.InputError, IndexError)):
            store.x[wrong]
        with pytest.raises(ga.UsageError, match="not an integer"):
            store.neighbors(wrong)
    for far in (300, -301, 2**70, -(2**70), 10**5000):
        with pytest.raises(IndexError, match="at position 0; the store has nodes 0 to 299"):
            store.x[far]


def test_neighbors_of_a_hub(tmp_path):
    rng = np.random.default_rng(2)
    edge_index = np.stack([rng.integers(0, 500, 20_000), np.where(rng.random(20_000) < 0.5, 9, 10)])
    with ga.build(tmp_path / "s", edge_index, block_size=4096, order="degree", memory="64MiB") as store:
        for v in (9, 10, 11):
            sources, edges = store.neighbors(v)
            assert np.array_equal(edges, np.flatnonzero(edge_index[1] == v))
            assert np.array_equal(sources, edge_index[0, edges])


def test_ids(tmp_path):
    rng = np.random.default_rng(3)
    names = np.sort(rng.choice(1 << 40, 700, replace=False))
    edge_index = names[rng.integers(0, 700, (2, 5000))]
    present = np.unique(edge_index)
    with ga.build(tmp_path / "s", edge_index, ids="rank", order="degree", memory="64MiB") as store:
        ids = rng.integers(0, len(present), 2000)
        assert np.array_equal(store.original_ids(ids), present[ids])
        assert np.array_equal(store.dense_ids(present[ids]), ids)
        assert store.original_ids(4) == present[4] and store.dense_ids(int(present[4])) == 4
        assert len(store.original_ids([])) == len(store.dense_ids([])) == 0
        for missing in (-1, int(present[-1]) + 1, int(present[0]) - 1):
            with pytest.raises(ValueError, match=f"{missing} at position 1"):
                store.dense_ids([int(present[0]), missing])
        with pytest.raises(ga.UsageError, match=f"{len(present)} at position 0"):
            store.original_ids([len(present)])
        sources, edges = store.neighbors(5)
        assert np.array_equal(present[sources], edge_index[0, edges])


def test_dense_ids_are_their_own(store):
    assert np.array_equal(store.original_ids([7, 3]), [7, 3])
    assert np.array_equal(store.dense_ids([7, 3]), [7, 3])
    with pytest.raises(ValueError, match="300 at position 1"):
        store.dense_ids([7, 300])


def test_masks_and_splits(store, graph):
    train = np.zeros(300, dtype=bool)
    train[graph.splits["train"]] = True
    assert np.array_equal(store.train_mask, train)
    assert np.array_equal(store.val_mask, graph.splits["val"])
    assert store.test_mask is None
    assert np.array_equal(store.split("train"), graph.splits["train"])
    with pytest.raises(ga.InputError, match="it has: train, val"):
        store.split("test")


def test_set_split(store_path, graph):
    with ga.open(store_path, memory="64MiB") as store:
        rest = np.setdiff1d(
            np.arange(300), np.concatenate([graph.splits["train"], np.flatnonzero(graph.splits["val"])])
        )
        before = ga.NeighborLoader(store, [2], "train", batch_size=10, output="numpy")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            store.set_split("test", rest[::-1])
        assert store.splits["test"] == store.info()["splits"]["test"] == len(rest)
        assert np.array_equal(store.split("test"), rest[::-1])
        loader = ga.NeighborLoader(store, [2], "test", batch_size=10, output="numpy")
        got = [batch.n_id[: batch.batch_size] for batch in loader]
        assert np.array_equal(np.concatenate(got), rest[::-1])
        mask = np.zeros(300, dtype=bool)
        mask[rest[:3]] = True
        with pytest.warns(UserWarning, match="3 nodes of split 'train' are in split 'test' too"):
            store.set_split("train", mask)
        assert np.array_equal(store.split("train"), rest[:3]) and len(before) == 9
        with pytest.warns(UserWarning, match="1 nodes of split 'b' are in split 'test' too"):
            store.set_split("b", [rest[5]])
        with pytest.warns(UserWarning, match="1 entries of split 'c' repeat a node"):
            store.set_split("c", [graph.splits["train"][0]] * 2)
        store.set_split("empty", [])
        assert len(ga.NeighborLoader(store, [2], "empty", output="numpy")) == 0
        for wrong, text in (([300], r"nodes\[0\] is 300"), ([[1]], "shape"), ([0.5], "float64"), ([True], "length 1")):
            with pytest.raises(ga.InputError, match=text):
                store.set_split("test", wrong)
        with pytest.raises(ga.UsageError, match="name"):
            store.set_split("../x", [1])
    with ga.open(store_path) as again:
        assert sorted(again.splits) == ["train", "val"]


def test_training_sees_a_split(tmp_path):
    ga.generate(tmp_path / "g", kind="community", num_nodes=600, avg_degree=8, num_features=8, num_classes=3).close()
    with ga.open(tmp_path / "g", memory="64MiB") as store:
        store.set_split("val", [])
        store.set_split("test", np.setdiff1d(np.arange(600), store.split("train"))[:50])
        report = ga.train(
            store, model="sage", layers=2, epochs=1, num_neighbors=[3, 3], eval_neighbors=[3, 3], progress=False
        )
        assert report["counts"]["test"] == 50


def test_html(store):
    text = store._repr_html_()
    assert "<td" in text and "3,000" in text and "train 90, val 43" in text and "64.0 MiB" in text
    loader = ga.NeighborLoader(store, [2], output="numpy", seed=11)
    assert "num_neighbors" in loader._repr_html_() and "11" in loader._repr_html_()


def test_html_is_escaped(graph, tmp_path):
    with ga.build(tmp_path / "<b>&", graph.edge_index, memory="64MiB") as store:
        assert "<b>&" not in store._repr_html_()
        assert "&lt;b&gt;&amp;" in store._repr_html_()


needs_pyg = pytest.mark.skipif(
    importlib.util.find_spec("torch_geometric") is None, reason="torch-geometric is not installed"
)


@pytest.mark.torch
@needs_pyg
@pytest.mark.filterwarnings("ignore")
def test_to_pyg(store, graph):
    data = store.to_pyg()
    assert np.array_equal(data.edge_index.numpy(), graph.edge_index)
    assert np.array_equal(data.x.numpy(), graph.x) and np.array_equal(data.y.numpy(), graph.y)
    assert np.array_equal(data.val_mask.numpy(), graph.splits["val"]) and data.num_nodes == 300
    assert "test_mask" not in data
    with pytest.raises(ga.BudgetError, match="limit=57000"):
        store.to_pyg(limit=1000)


@pytest.mark.torch
@needs_pyg
@pytest.mark.filterwarnings("ignore")
def test_to_pyg_with_dropped_edges(tmp_path):
    edges = np.array([[0, 1, 0, 2, 2], [1, 2, 1, 2, 0]])
    with ga.build(tmp_path / "s", edges, duplicates="drop", self_loops="drop") as store:
        data = store.to_pyg()
    assert data.e_id.tolist() == [0, 1, 4]
    assert np.array_equal(data.edge_index.numpy(), edges[:, data.e_id.numpy()])


@pytest.mark.skipif(importlib.util.find_spec("torch_geometric") is not None, reason="torch-geometric is installed")
def test_to_pyg_names_the_extra(store):
    with pytest.raises(ga.UnsupportedError, match=r"goagnes\[pyg\]"):
        store.to_pyg()
