"""Opening, describing, verifying and closing stores."""

from __future__ import annotations

import copy
import gc
import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest

import goagnes as ga
from goagnes import _native, _tasks


def test_counts(store, graph):
    assert (store.num_nodes, store.num_edges, store.num_features, store.num_classes) == (300, 3000, 5, 4)
    assert dict(store.splits) == {"train": 90, "val": 43}
    info = store.info()
    assert info["num_nodes"] == 300
    assert info["feature_dtype"] == "float32"
    with pytest.raises(TypeError):
        store.splits["test"] = 1
    assert repr(store).startswith("<goagnes.Store ")
    assert "300 nodes, 3,000 edges" in repr(store)


def test_without_features_and_labels(graph, tmp_path):
    with ga.build(tmp_path / "s", graph.edge_index, num_nodes=400) as store:
        assert (store.num_nodes, store.num_features, store.num_classes, dict(store.splits)) == (400, 0, 0, {})
        batch = next(iter(ga.NeighborLoader(store, [2], output="numpy")))
        assert batch.x is None
        assert batch.y is None
        assert "x" not in batch


def test_missing_store(tmp_path):
    with pytest.raises(ga.StoreError, match="nowhere") as raised:
        ga.open(tmp_path / "nowhere")
    assert isinstance(raised.value, OSError)
    (tmp_path / "file").write_text("no store")
    with pytest.raises(ga.Error, match="file"):
        ga.open(tmp_path / "file")


@pytest.mark.parametrize("memory", ["1", 1, "100KiB"])
def test_memory_too_small(store_path, memory):
    with pytest.raises(ga.BudgetError), ga.open(store_path, memory=memory) as store:
        list(ga.NeighborLoader(store, [10, 10], output="numpy"))


@pytest.mark.parametrize("memory", ["", "lots", "2 gallons", "-1", -1, 0, 1.5, None, "0", True, 2**70])
def test_memory_that_is_no_size(store_path, memory):
    with pytest.raises(ga.UsageError, match="memory"):
        ga.open(store_path, memory=memory)


@pytest.mark.parametrize("memory", [64 << 20, "64MiB", "64 mib", "67108864", "0.0625GiB", "70MB", np.int64(64 << 20)])
def test_memory_that_is_a_size(store_path, memory):
    with ga.open(store_path, memory=memory) as store:
        assert store.info()["memory"] in (64 << 20, 70_000_000)


@pytest.mark.parametrize("threads", [0, -1, 1.0, "2", True])
def test_num_threads(store_path, threads):
    with pytest.raises(ga.UsageError, match="num_threads"):
        ga.open(store_path, num_threads=threads)


def test_closing(store_path):
    before = _native.open_handles()
    store = ga.open(store_path)
    assert not store.closed
    loader = ga.NeighborLoader(store, [3], output="numpy")
    store.close()
    store.close()
    assert store.closed
    assert "(closed)" in repr(store)
    for use in (store.info, lambda: iter(loader), lambda: ga.NeighborLoader(store, [1])):
        with pytest.raises(ga.ClosedError, match="closed"):
            use()
    assert store.num_nodes == 300
    loader.close()
    assert _native.open_handles() == before


def test_collected_stores_close(store_path):
    before = _native.open_handles()
    store = ga.open(store_path)
    loader = ga.NeighborLoader(store, [3], output="numpy")
    iterator = iter(loader)
    batch = next(iterator)
    del store, loader, iterator
    gc.collect()
    assert _native.open_handles() == before
    assert batch.n_id[0] == 0


def test_verify(store, store_path, tmp_path):
    assert store.verify()["findings"] == []
    import shutil

    damaged = tmp_path / "damaged"
    shutil.copytree(store_path, damaged)
    largest = max((p for p in Path(damaged).rglob("*") if p.is_file()), key=lambda p: p.stat().st_size)
    data = bytearray(largest.read_bytes())
    data[len(data) // 2] ^= 4
    largest.write_bytes(data)
    findings = ga.verify(damaged)["findings"]
    assert findings
    assert any(largest.name in str(finding) for finding in findings)


def test_nothing_is_pickled_or_copied(store):
    for use in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match=r"open it again with goagnes.open"):
            use(store)


def test_paths(store_path, tmp_path, monkeypatch):
    monkeypatch.chdir(store_path.parent)
    with ga.open(store_path.name) as store:
        assert store.path == str(store_path)
    for bad in (b"bytes", "", "a\0b", 3, None):
        with pytest.raises((ga.UsageError, TypeError)):
            ga.open(bad)
    with pytest.raises(ga.UsageError, match="UTF-8"):
        ga.open("caf\udce9")
    unusual = tmp_path / "größe ☃"
    ga.build(unusual, np.zeros((2, 3), np.int64)).close()
    with pytest.raises(ga.Error, match="größe ☃"):
        ga.build(unusual, np.zeros((2, 3), np.int64))


@pytest.mark.parametrize("io", ["auto", "pread", "buffered"])
def test_io(graph, tmp_path, io):
    with ga.build(tmp_path / "s", graph.edge_index, x=graph.x, io=io) as store:
        info = store.info()
        assert info["engine"] == io if io != "auto" else info["engine"] in ("uring", "pread")
        loader = ga.NeighborLoader(store, [2], output="numpy")
        next(iter(loader))
        assert loader.stats()["io"]["engine"] == info["engine"]
        if io == "buffered":
            assert not info["direct"]
            assert "direct_refused" not in info


def test_io_refused(store, graph, tmp_path):
    for make in (
        lambda: ga.open(store.path, io="mmap"),
        lambda: ga.verify(store.path, io="mmap"),
        lambda: ga.build(tmp_path / "s", graph.edge_index, io="mmap"),
        lambda: ga.generate(tmp_path / "s", num_nodes=100, io="mmap"),
    ):
        with pytest.raises(ga.UnsupportedError, match="io=mmap"):
            make()
    with pytest.raises(ga.UsageError, match="io=3"):
        ga.open(store.path, io=3)


def test_direct_io_refused(store, monkeypatch):
    """A file system that refuses direct I/O, as the native library tells of it: said once for each store opened."""
    native = _tasks.run

    def refusing(kind, *arguments, adopt=None, **named):
        if kind != "open":
            return native(kind, *arguments, adopt=adopt, **named)
        answer = native(kind, *arguments, **named)
        answer["info"].update(direct=False, direct_refused="/mnt/odd/store/graph")
        return adopt(answer)

    monkeypatch.setattr(_tasks, "run", refusing)
    with (
        pytest.warns(
            ga.DirectIOWarning, match=r"the file system of /mnt/odd/store refuses direct I/O.*page cache"
        ) as said,
        ga.open(store.path) as again,
    ):
        next(iter(ga.NeighborLoader(again, [2], output="numpy")))
    assert len(said) == 1
    assert said[0].filename == __file__
    monkeypatch.setattr(_tasks, "run", native)
    # So for what only turns out later: scratch, and loaders with a way to the device of their own.
    with ga.open(store.path, "64MiB", io="buffered") as again:
        loader = ga.NeighborLoader(again, [2], batch_size=50, output="numpy", io="pread")
        real = loader.stats
        monkeypatch.setattr(loader, "stats", lambda: real() | {"io": {"fallback_file": "/mnt/odd/scratch/rows"}})
        with pytest.warns(ga.DirectIOWarning, match=r"the file system of /mnt/odd/scratch refuses direct") as said:
            batches = [batch.index for _ in range(2) for batch in loader]
        assert (len(said), said[0].filename) == (1, __file__)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            again._through_cache.clear()
            epoch = iter(loader)
            got = [next(epoch).index]
            with pytest.raises(ga.DirectIOWarning):
                next(epoch)
            got += [batch.index for batch in epoch]
        assert got + got == batches  # none is lost to a warning that is made an error
    assert issubclass(ga.DirectIOWarning, RuntimeWarning)


def test_read_only(graph, tmp_path, monkeypatch):
    """A store beside which nothing can be written, as the native library tells of it: said once for each opened."""
    ga.build(tmp_path / "s", graph.edge_index, x=graph.x).close()
    native = _tasks.run

    def read_only(kind, *arguments, adopt=None, **named):
        if kind != "open":
            return native(kind, *arguments, adopt=adopt, **named)
        answer = native(kind, *arguments, **named)
        assert answer["info"]["scratch"] == [str(tmp_path)]
        assert "scratch_moved" not in answer["info"]
        answer["info"].update(scratch=["/elsewhere"], scratch_moved="write to /dvd: read-only file system")
        return adopt(answer)

    monkeypatch.setattr(_tasks, "run", read_only)
    with pytest.warns(RuntimeWarning, match=r"/dvd: read-only.*goes to /elsewhere; scratch=") as said:
        ga.open(tmp_path / "s").close()
    assert len(said) == 1
    assert said[0].filename == __file__
