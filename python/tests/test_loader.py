"""NeighborLoader: arguments, epochs, lifetime. What it samples is tested in tests/ against an oracle."""

from __future__ import annotations

import copy
import gc
import pickle
import re
import time
import weakref

import numpy as np
import pytest

import goagnes as ga
from goagnes import _native, _outputs


def loader_of(store, fanouts=(3, 2), nodes=None, **options):
    options.setdefault("output", "numpy")
    return ga.NeighborLoader(store, list(fanouts), nodes, **options)


def test_minibatch(store, graph):
    loader = loader_of(store, [4, 4], "train", batch_size=32, shuffle=True, seed=1)
    assert len(loader) == 3
    seen = []
    for index, batch in enumerate(loader):
        assert batch.index == index
        assert batch.batch_size == len(batch.input_id)
        assert batch.num_nodes == len(batch.n_id) == sum(batch.num_sampled_nodes)
        assert batch.num_edges == len(batch.e_id) == sum(batch.num_sampled_edges)
        np.testing.assert_array_equal(batch.n_id[batch.edge_index], graph.edge_index[:, batch.e_id])
        np.testing.assert_array_equal(batch.x, graph.x[batch.n_id])
        np.testing.assert_array_equal(batch.y, graph.y[batch.n_id])
        np.testing.assert_array_equal(graph.splits["train"][batch.input_id], batch.n_id[: batch.batch_size])
        assert batch.x.dtype == np.float32
        assert batch.y.dtype == np.int64
        assert set(batch) == {"x", "y", "n_id", "edge_index", "e_id", "input_id"}
        seen.extend(batch.n_id[: batch.batch_size].tolist())
    assert sorted(seen) == sorted(graph.splits["train"].tolist())


def test_same_seed_same_minibatches(store):
    first = [b.n_id.copy() for b in loader_of(store, batch_size=50, shuffle=True, seed=7)]
    again = [b.n_id.copy() for b in loader_of(store, batch_size=50, shuffle=True, seed=7, hyperbatch_size=2)]
    other = [b.n_id.copy() for b in loader_of(store, batch_size=50, shuffle=True, seed=8)]
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))


def test_epochs_differ_and_can_be_set(store):
    loader = loader_of(store, batch_size=300, shuffle=True, seed=7)
    epochs = [next(iter(loader)).n_id[:20].tolist() for _ in range(3)]
    assert epochs[0] != epochs[1] != epochs[2]
    loader.set_epoch(1)
    assert next(iter(loader)).n_id[:20].tolist() == epochs[1]
    assert next(iter(loader)).n_id[:20].tolist() == epochs[2]
    for bad in (-1, 2**32, "a", 1.5):
        with pytest.raises((ga.UsageError, TypeError)):
            loader.set_epoch(bad)


def test_seed(store):
    assert loader_of(store, seed=2**64 - 1).seed == 2**64 - 1
    assert loader_of(store, seed=0).seed == 0
    assert loader_of(store, seed=np.uint64(5)).seed == 5
    assert len({loader_of(store).seed for _ in range(4)}) == 4
    for bad in (-1, 2**64, 1.5, "1", True):
        with pytest.raises(ga.UsageError, match="seed"):
            loader_of(store, seed=bad)


def test_input_nodes(store, graph):
    mask = graph.splits["val"]
    for nodes, ids, positions in (
        (None, np.arange(300), np.arange(300)),
        ("train", graph.splits["train"], np.arange(90)),
        (mask, np.flatnonzero(mask), np.flatnonzero(mask)),
        (list(map(bool, mask)), np.flatnonzero(mask), np.flatnonzero(mask)),
        ([5, 5, 299, 0], [5, 5, 299, 0], [0, 1, 2, 3]),
        (range(3, 9), range(3, 9), range(6)),
        (np.array([7, 8], np.uint8), [7, 8], [0, 1]),
        (np.arange(20)[::-3], np.arange(20)[::-3], range(7)),
        (np.array([1, 2], ">i4"), [1, 2], [0, 1]),
        (np.array([], np.int64), [], []),
        ([], [], []),
    ):
        loader = loader_of(store, [2], nodes, batch_size=1000)
        assert len(loader) == (1 if len(ids) else 0)
        got = [(batch.n_id[: batch.batch_size], batch.input_id) for batch in loader]
        assert np.array_equal(np.concatenate([n for n, _ in got] or [[]]), ids)
        assert np.array_equal(np.concatenate([i for _, i in got] or [[]]), positions)


@pytest.mark.parametrize(
    ("nodes", "match"),
    [
        ([0, 300], r"input_nodes\[1\] is 300.*0 to 299"),
        ([4, 2, -1], r"input_nodes\[2\] is -1"),
        (np.array([2**63], np.uint64), r"input_nodes\[0\] is 9223372036854775808"),
        ([0.0, 1.5], "float64, not an integer.*the first is"),
        (np.zeros((2, 3), np.int64), r"shape \(2, 3\)"),
        (np.int64(3), r"shape \(\)"),
        (np.zeros(299, bool), "mask of length 299; the store has 300"),
        ("nosplit", "'nosplit' names no split.*train, val"),
        (["a"], "element type"),
        (np.array([None]), "element type"),
    ],
)
def test_wrong_input_nodes(store, nodes, match):
    with pytest.raises(ga.InputError, match=match) as raised:
        loader_of(store, [2], nodes)
    assert isinstance(raised.value, ValueError)


def test_input_nodes_are_copied(store):
    """Changing the array after construction changes nothing."""
    ids = np.arange(10)
    loader = loader_of(store, [2], ids, batch_size=10)
    ids[:] = 299
    gc.collect()
    assert next(iter(loader)).n_id[:10].tolist() == list(range(10))


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"input_time": np.zeros(3)}, "input_time"),
        ({"replace": True}, "replace=True"),
        ({"subgraph_type": "induced"}, "subgraph_type='induced'"),
        ({"subgraph_type": "bidirectional"}, "subgraph_type"),
        ({"disjoint": True}, "disjoint"),
        ({"temporal_strategy": "last"}, "temporal_strategy"),
        ({"time_attr": "time"}, "time_attr"),
        ({"weight_attr": "w"}, "weight_attr"),
        ({"rank": 0}, "rank"),
        ({"world_size": 2}, "world_size"),
        ({"mode": "ginex"}, "mode='ginex'"),
        ({"graph_buffer": "1GiB", "fanouts": []}, "graph_buffer="),
        ({"output": "dgl"}, "dgl"),
        ({"io": "magic"}, "io"),
        ({"num_workers": 2}, "num_workers=2.*background"),
        ({"pin_memory": True}, "pin_memory"),
        ({"nodes": ("paper", [1])}, "node type"),
        ({"fanouts": {("a", "b", "c"): [1]}}, "num_neighbors"),
    ],
)
def test_unsupported(store, options, match):
    arguments = dict(options)
    fanouts, nodes = arguments.pop("fanouts", [2]), arguments.pop("nodes", None)
    with pytest.raises(ga.UnsupportedError, match=match) as raised:
        ga.NeighborLoader(store, fanouts, nodes, **{"output": "numpy", **arguments})
    assert isinstance(raised.value, ValueError)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"batch_size": 0}, "batch_size=0"),
        ({"batch_size": 2.0}, "batch_size=2.0"),
        ({"batch_size": True}, "batch_size=True"),
        ({"shuffle": 1}, "shuffle=1"),
        ({"drop_last": None}, "drop_last"),
        ({"hyperbatch_size": 0}, "hyperbatch_size"),
        ({"hyperbatch_size": "many"}, "hyperbatch_size"),
        ({"memory": "much"}, "memory"),
        ({"output": "cupy"}, "output='cupy'"),
        ({"fanouts": 3}, "num_neighbors=3"),
        ({"fanouts": [-2]}, r"num_neighbors\[0\] is -2"),
        ({"fanouts": [1, 2.5]}, r"num_neighbors\[1\] is 2.5"),
        ({"fanouts": [True]}, r"num_neighbors\[0\]"),
        ({"fanouts": [1] * 33}, "num_neighbors"),
    ],
)
def test_wrong_arguments(store, options, match):
    arguments = dict(options)
    fanouts = arguments.pop("fanouts", [2])
    with pytest.raises(ga.UsageError, match=match):
        ga.NeighborLoader(store, fanouts, **{"output": "numpy", **arguments})


def test_wrong_types(store, store_path):
    with pytest.raises(TypeError, match=r"goagnes\.open"):
        ga.NeighborLoader(str(store_path), [2])
    with pytest.raises(TypeError, match="transform"):
        loader_of(store, transform=3)
    with pytest.raises(TypeError, match="unexpected argument 'nonsense'"):
        loader_of(store, nonsense=3)
    loader_of(store, num_workers=0, pin_memory=False)


def test_defaults_are_pygs(store):
    loader = ga.NeighborLoader(store, [2], output="numpy")
    assert (loader.batch_size, len(loader), loader.num_neighbors) == (1, 300, [2])
    assert next(iter(loader)).n_id[0] == 0


def test_transform(store):
    def double(batch):
        return batch.x * 2, batch.n_id

    for features, ids in loader_of(store, [2], [4], transform=double):
        assert ids[0] == 4
        assert features.shape[1] == 5


def test_arrays_can_be_replaced_and_added(store, graph):
    batch = next(iter(loader_of(store, [2], [4])))
    batch.x += 1
    np.testing.assert_array_equal(batch.x, graph.x[batch.n_id] + 1)
    batch["weight"] = np.ones(3)
    batch.y = None
    assert batch.weight.sum() == 3
    assert "weight" in batch
    assert dict(batch.items())["y"] is None


def test_no_edge_ids(store):
    batch = next(iter(loader_of(store, edge_ids=False)))
    assert batch.e_id is None
    assert "e_id" not in batch
    assert batch.num_edges == batch.edge_index.shape[1]


def test_isolated_nodes(store):
    batch = next(iter(loader_of(store, [-1, -1], np.arange(280, 300), batch_size=20)))
    assert batch.x.shape == (20, 5)
    assert batch.edge_index.shape == (2, 0)
    assert batch.num_sampled_nodes == [20, 0, 0]
    assert batch.num_sampled_edges == [0, 0]


def test_drop_last_and_length(store):
    assert len(loader_of(store, batch_size=7)) == 43
    assert len(loader_of(store, batch_size=7, drop_last=True)) == 42
    assert len(list(loader_of(store, batch_size=7, drop_last=True))) == 42
    assert len(loader_of(store, batch_size=301, drop_last=True)) == 0
    assert list(loader_of(store, batch_size=301, drop_last=True)) == []


def test_a_new_iterator_ends_the_one_before(store):
    loader = loader_of(store)
    first = iter(loader)
    next(first)
    second = iter(loader)
    next(second)
    with pytest.raises(ga.ClosedError, match="newer iterator"):
        next(first)
    next(second)


def test_iterator_close(store):
    loader = loader_of(store)
    iterator = iter(loader)
    next(iterator)
    iterator.close()
    iterator.close()
    with pytest.raises(StopIteration):
        next(iterator)
    assert sum(1 for _ in loader) == 300
    exhausted = iter(loader)
    assert sum(1 for _ in exhausted) == 300
    assert list(exhausted) == []


def test_abandoned_iterators(store):
    """Epochs left in the middle hold nothing afterwards."""
    loader = loader_of(store, [5, 5], batch_size=10, shuffle=True)
    for _ in range(20):
        for batch in loader:
            if batch.index == 2:
                break
    del batch
    gc.collect()
    counts = _native.counters()
    assert counts["tensors_made"] == counts["tensors_freed"]
    loader.close()
    with pytest.raises(ga.ClosedError):
        iter(loader)
    with loader_of(store) as other:
        pass
    assert other.closed
    assert "closed" in repr(other)


def test_loader_dies_with_its_last_reference(store):
    loader = loader_of(store)
    gone = weakref.ref(loader)
    handles = _native.open_handles()
    next(iter(loader))
    del loader
    gc.collect()
    assert gone() is None
    assert _native.open_handles() == handles - 1


def test_zero_copy(store):
    """What numpy sees is the memory that the data plane reports."""
    loader = loader_of(store, batch_size=20)
    number = _native.call("BeginEpoch", loader.handle)
    raw = _native.next_batch(loader.handle, number)
    batch = _outputs.resolve("numpy")[1](raw)
    for name, tensor in raw[6].items():
        array = batch[name]
        assert array.__array_interface__["data"][0] == tensor.address
        assert np.shares_memory(array, np.from_dlpack(tensor))
        assert array.flags.writeable


def test_minibatches_outlive_loader_and_store(store_path, graph):
    with ga.open(store_path) as store, loader_of(store, batch_size=100) as loader:
        batches = list(loader)
    gc.collect()
    for batch in batches:
        np.testing.assert_array_equal(batch.x, graph.x[batch.n_id])


def test_stats(store):
    loader = loader_of(store, batch_size=100)
    list(loader)
    stats = loader.stats()
    assert stats["minibatches"] == 3
    assert stats["seed"] == loader.seed
    assert stats["bytes_read"] > 0


def test_explain(store):
    loader = loader_of(store, batch_size=100, mode="agnes-paper", graph_buffer="2MiB")
    plan = loader.explain()
    assert plan["mode"] == "agnes-paper"
    assert plan["minibatches"] == 3
    assert plan["prepared"] == 0
    assert {"graph buffer", "feature buffer"} <= {part["name"] for part in plan["memory"]}
    assert "agnes-paper" in str(plan)
    list(loader)
    plan = loader.explain()
    assert plan["prepared"] == 3
    assert sum(phase["actual_read"] for phase in plan["phases"]) > 0
    assert "measured" in str(plan)


@pytest.mark.parametrize("mode", ["agnes", "agnes-no", "agnes-paper"])
def test_buffers_change_no_minibatch(store, mode):
    options = {"batch_size": 100, "shuffle": True, "seed": 5}
    plain = list(loader_of(store, **options))
    sized = loader_of(store, mode=mode, graph_buffer="2MiB", feature_buffer="2MiB", **options)
    for got, want in zip(sized, plain, strict=True):
        for name in ("x", "y", "n_id", "edge_index", "e_id"):
            np.testing.assert_array_equal(getattr(got, name), getattr(want, name))
    stats = sized.stats()
    for table in ("graph_buffer", "feature_buffer"):
        assert stats[f"{table}_misses"] > 0
        assert stats[f"{table}_hits"] >= 0
    assert stats["cache_hits"] + stats["cache_misses"] == stats["sampled_nodes"]


def test_minibatches_that_are_kept_count(store_path):
    """Keeping all of them is an error after 30 s that says how many are held, and no hang; then all goes on."""
    with ga.open(store_path, memory="8MiB") as store:
        loader = ga.NeighborLoader(store, [5, 5], batch_size=20, output="numpy", hyperbatch_size=4)
        kept = []

        def keep() -> None:
            for _ in range(200):
                kept.extend(loader)

        start = time.monotonic()
        with pytest.raises(
            ga.BudgetError, match=r"the consumer holds \d+ minibatches .*: release them sooner or raise memory"
        ) as raised:
            keep()
        assert time.monotonic() - start >= 30
        held = int(re.search(r"holds (\d+) minibatches", str(raised.value))[1])
        assert held >= len(kept) >= 8
        del raised
        kept.clear()
        assert sum(1 for _ in loader) == len(loader)


@pytest.mark.parametrize("name", ["graph_buffer", "feature_buffer"])
def test_a_buffer_holds_at_least_one_frame(store, name):
    with pytest.raises(ga.BudgetError, match=rf"{name} of 100 bytes: one frame takes \d+ bytes: set {name} to \d+"):
        loader_of(store, **{name: 100})


def test_repr_and_properties(store):
    loader = loader_of(store, [3, 2], batch_size=100, seed=3)
    assert repr(loader) == (
        "<goagnes.NeighborLoader 3 minibatches, num_neighbors=[3, 2], batch_size=100, seed=3, output='numpy'>"
    )
    assert loader.store is store
    assert loader.output == "numpy"
    assert repr(next(iter(loader))).startswith("Batch(x=[")


def test_nothing_is_pickled(store):
    loader = loader_of(store)
    iterator = iter(loader)
    for thing in (loader, iterator, next(iterator)):
        for use in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="cannot be pickled"):
                use(thing)


def test_auto_output_is_the_richest_installed(store, monkeypatch):
    import importlib.util

    have: set[str] = set()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name if name in have else None)
    assert ga.NeighborLoader(store, [1]).output == "numpy"
    for output, missing in (("torch", "torch"), ("pyg", "torch")):
        with pytest.raises(ga.UnsupportedError, match=rf'needs {missing}: pip install "goagnes\[{output}\]"'):
            loader_of(store, output=output)
    have.add("torch")
    with pytest.raises(ga.UnsupportedError, match="needs torch_geometric"):
        loader_of(store, output="pyg")
