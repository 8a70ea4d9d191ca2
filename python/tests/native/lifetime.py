"""Memory of minibatches: shared, kept alive by views, given back exactly once."""

from __future__ import annotations

import gc
import weakref

import numpy as np
from synthetic import Loader, balanced, raises

from goagnes import _native
from goagnes._batch import numpy_batch


def check_zero_copy() -> None:
    """numpy and DLPack see the address that the engine filled."""
    loader = Loader(batches=1, nodes=100, features=7)
    (raw,) = loader.raw()
    for name, tensor in raw[6].items():
        array = np.asarray(tensor)
        assert array.__array_interface__["data"][0] == tensor.address, name
        assert array.flags.writeable, name
        assert array.nbytes == tensor.nbytes, name
        assert array.shape == tensor.shape, name
        assert array.dtype.name == tensor.dtype, name
        exchanged = np.from_dlpack(tensor)
        assert exchanged.__array_interface__["data"][0] == tensor.address, name
        assert np.shares_memory(array, exchanged), name
        assert tensor.address % 64 == 0, name
    batch = numpy_batch(raw)
    assert batch.x.__array_interface__["data"][0] == raw[6]["x"].address
    batch.x[3, 2] = 9.0
    assert np.asarray(raw[6]["x"])[3, 2] == 9.0


def check_values() -> None:
    loader = Loader(batches=3, nodes=4, features=2)
    for epoch in range(2):
        for index, raw in enumerate(loader.raw()):
            batch = numpy_batch(raw)
            assert (batch.index, batch.batch_size, batch.num_nodes, batch.num_edges) == (index, 1, 4, 3)
            assert batch.num_sampled_nodes == [1, 3]
            assert batch.num_sampled_edges == [3]
            assert (batch.x == index).all()
            assert (batch.y == epoch).all()
            assert batch.n_id.tolist() == [0, 1, 2, 3]
            assert batch.edge_index.tolist() == [[1, 2, 3], [0, 1, 2]]
            assert batch.e_id is None
            assert "e_id" not in batch
            raises(KeyError, "e_id", batch.__getitem__, "e_id")
            raises(AttributeError, "nothing", getattr, batch, "nothing")
            assert batch["batch_size"] == 1
            assert sorted(batch.keys()) == ["edge_index", "n_id", "x", "y"]


def check_views_outlive_everything() -> None:
    loader = Loader(batches=2, nodes=1000, features=3)
    first, second = (numpy_batch(raw) for raw in loader.raw())
    column = second.x[:, 1]
    memory = memoryview(second.n_id)
    del second
    loader.close()
    gc.collect()
    assert (first.x == 0).all()
    assert (column == 1).all()
    assert memory[999] == 999
    assert _native.counters()["slabs_unmapped"] == 0
    del first
    assert _native.counters()["slabs_unmapped"] == 1
    del column
    assert _native.counters()["slabs_unmapped"] == 1
    del memory
    assert _native.counters()["slabs_unmapped"] == 2
    balanced()


def check_pool_reuses_what_is_given_back() -> None:
    """Views dropped in C let the pool use their slab again: one slab serves a whole epoch."""
    loader = Loader(batches=300, nodes=50, features=4, slabs=1)
    for raw in loader.raw():
        batch = numpy_batch(raw)
        assert batch.x[0, 0] == raw[0]
        del batch, raw
    counts = loader.pool()
    assert (counts["gets"], counts["mapped"], counts["in_use"]) == (300, 1, 0), counts
    loader.close()
    balanced()


def check_dropping_a_view_wakes_the_pool() -> None:
    """Back-pressure: a loader that waits for memory goes on as soon as a view is dropped, on any thread."""
    import threading
    import time

    loader = Loader(batches=3, nodes=50, slabs=2)
    epoch = loader.begin()
    held = [numpy_batch(_native.next_batch(loader.handle, epoch)) for _ in range(2)]
    dropped: list[float] = []

    def drop() -> None:
        time.sleep(0.3)
        dropped.append(time.monotonic())
        held.pop()

    thread = threading.Thread(target=drop)
    thread.start()
    batch = _native.next_batch(loader.handle, epoch)
    late = time.monotonic() - dropped[0]
    thread.join()
    assert 0 <= late < 0.04, f"the minibatch came {late} s after the memory"
    assert batch[0] == 2
    assert (held[0].x == 0).all()


def check_holding_everything_is_an_error() -> None:
    """Who keeps every minibatch is told so, and can go on after letting go."""
    import goagnes as ga

    loader = Loader(batches=4, nodes=50, slabs=2)
    raws = loader.raw()
    held = [next(raws), next(raws)]
    raises(ga.BudgetError, "the consumer holds 2 minibatches", next, raws)
    held.clear()
    assert [raw[0] for raw in loader.raw()] == [0, 1, 2, 3]


def check_empty_minibatch() -> None:
    """Isolated or no nodes: shapes with zeros, through every way out."""
    for nodes in (0, 1):
        loader = Loader(batches=1, nodes=nodes, features=3)
        (raw,) = loader.raw()
        batch = numpy_batch(raw)
        assert batch.x.shape == (nodes, 3)
        assert batch.edge_index.shape == (2, 0)
        assert np.from_dlpack(raw[6]["edge_index"]).shape == (2, 0)
        assert bytes(memoryview(raw[6]["edge_index"])) == b""
        loader.close()
    del batch, raw
    balanced()


def check_tensors_need_no_cycle_collection() -> None:
    gc.disable()
    loader = Loader(batches=200, nodes=50, features=4)
    for raw in loader.raw():
        batch = numpy_batch(raw)
        gone = weakref.ref(batch.x)
    del raw, batch
    assert gone() is None
    balanced()
    assert loader.pool()["in_use"] == 0
    assert loader.pool()["mapped"] <= 3


def check_nothing_grows() -> None:
    """Resident memory stays put over many minibatches and epochs."""
    import resource

    loader = Loader(batches=200, nodes=2000, features=32)
    peak = 0
    for epoch in range(6):
        for raw in loader.raw():
            numpy_batch(raw)
        if epoch == 1:
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak
    assert grown < 8 * 1024, f"{grown} KiB over {4 * 200} minibatches of 300 KiB"


def check_abandoned_epochs() -> None:
    """Leaving epochs in the middle gives everything back."""
    loader = Loader(batches=1000, nodes=100, features=8, delay=0)
    for _ in range(50):
        for raw in loader.raw():
            if raw[0] == 3:
                break
    del raw
    loader.close()
    balanced()
    assert _native.open_handles() == 0


def check_types() -> None:
    """Every element type arrives as itself; bfloat16 as its bits."""
    for name in "float16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool bfloat16".split():
        loader = Loader(batches=2, nodes=3, features=2, dtype=name)
        _, raw = loader.raw()
        tensor = raw[6]["x"]
        assert tensor.dtype == name
        array = np.asarray(tensor)
        assert array.dtype == np.dtype("uint16" if name == "bfloat16" else name)
        if name != "float32":
            assert array.tobytes() == b"\x01" * tensor.nbytes
        loader.close()


def check_buffer_requests() -> None:
    loader = Loader(batches=1, nodes=6, features=2)
    (raw,) = loader.raw()
    tensor = raw[6]["x"]
    view = memoryview(tensor)
    assert (view.format, view.shape, view.strides, view.itemsize) == ("f", (6, 2), (8, 4), 4)
    assert (view.readonly, view.c_contiguous, view.f_contiguous) == (False, True, False)
    assert len(bytes(tensor)) == 48
    raises(TypeError, "cannot create", type(tensor))
    raises(TypeError, "immutable type", setattr, type(tensor), "shape", 1)
    assert repr(tensor) == "<goagnes Tensor float32 (6, 2)>"
