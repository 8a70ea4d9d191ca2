"""torch and PyG: zero-copy outputs, inputs, seeds. Needs torch, and torch-geometric where named so."""

from __future__ import annotations

import gc
import gzip
import importlib.util
import subprocess
import sys

import numpy as np
import pytest

import goagnes as ga
from goagnes import _native, _outputs

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed"),
    pytest.mark.filterwarnings("ignore"),  # torch's and PyG's own
]
needs_pyg = pytest.mark.skipif(
    importlib.util.find_spec("torch_geometric") is None, reason="torch-geometric is not installed"
)


def raw_of(loader):
    return _native.next_batch(loader.handle, _native.call("BeginEpoch", loader.handle))


def test_torch_sees_the_same_memory(store):
    import torch

    loader = ga.NeighborLoader(store, [4, 4], batch_size=30, output="torch")
    raw = raw_of(loader)
    batch = _outputs.resolve("torch")[1](raw)
    for name, tensor in raw[6].items():
        assert batch[name].data_ptr() == tensor.address, name
        assert str(batch[name].dtype) == f"torch.{tensor.dtype}", name
        assert tuple(batch[name].shape) == tensor.shape, name
    array = np.asarray(raw[6]["x"])
    batch.x += 1
    assert np.shares_memory(array, batch.x.numpy())
    assert torch.equal(batch.x, torch.from_numpy(array))


def test_to(store):
    import torch

    batch = next(iter(ga.NeighborLoader(store, [2], batch_size=8, output="torch")))
    x = batch.x.clone()
    assert batch.to(torch.float64) is batch
    assert batch.x.dtype == torch.float64
    assert torch.equal(batch.x.float(), x)
    plain = next(iter(ga.NeighborLoader(store, [2], output="numpy")))
    with pytest.raises(TypeError, match="x is a ndarray"):
        plain.to("cpu")


def test_values(store, graph):
    import torch

    for batch in ga.NeighborLoader(store, [5, 5], "train", batch_size=40, shuffle=True, output="torch"):
        assert torch.equal(batch.x, torch.from_numpy(graph.x)[batch.n_id])
        assert torch.equal(batch.y, torch.from_numpy(graph.y)[batch.n_id])
        assert torch.equal(batch.n_id[batch.edge_index], torch.from_numpy(graph.edge_index)[:, batch.e_id])


def test_tensors_outlive_the_store(store_path, graph):
    with ga.open(store_path) as store:
        batches = list(ga.NeighborLoader(store, [5], batch_size=100, output="torch"))
    features = [(b.x[1:], b.n_id[1:]) for b in batches]
    del batches
    gc.collect()
    for x, ids in features:
        np.testing.assert_array_equal(x.numpy(), graph.x[ids.numpy()])
    del features, x, ids
    gc.collect()
    counts = _native.counters()
    assert counts["exports_made"] == counts["exports_freed"] > 0
    assert counts["tensors_made"] == counts["tensors_freed"]


def test_isolated_nodes(store):
    (batch,) = list(ga.NeighborLoader(store, [3], [290], output="torch"))
    assert tuple(batch.edge_index.shape) == (2, 0)
    assert tuple(batch.x.shape) == (1, 5)


def test_seed_comes_from_torch(store):
    import torch

    torch.manual_seed(5)
    first, second = (ga.NeighborLoader(store, [2], output="torch").seed for _ in range(2))
    torch.manual_seed(5)
    assert ga.NeighborLoader(store, [2], output="torch").seed == first
    assert first != second


def test_torch_inputs(tmp_path, graph):
    import torch

    edges, x, y = (torch.from_numpy(a) for a in (graph.edge_index, graph.x, graph.y))
    splits = {"train": torch.from_numpy(graph.splits["train"]), "val": torch.from_numpy(graph.splits["val"])}
    x.requires_grad_()
    with ga.build(tmp_path / "s", edges, x, y, splits=splits) as store:
        assert dict(store.splits) == {"train": 90, "val": 43}
        for nodes in (torch.tensor([3, 4]), torch.arange(300) == 7, torch.arange(10)[::2]):
            (batch,) = list(ga.NeighborLoader(store, [-1], nodes, batch_size=10, output="numpy"))
            np.testing.assert_array_equal(batch.x, graph.x[batch.n_id])
        with pytest.raises(ga.InputError, match=r"input_nodes\[1\] is 300"):
            ga.NeighborLoader(store, [1], torch.tensor([0, 300]))
        with pytest.raises(ga.InputError, match="float32, not an integer"):
            ga.NeighborLoader(store, [1], torch.tensor([0.5]))
    with ga.build(tmp_path / "t", edges.t().contiguous().t(), x.detach()[:, ::2].half()) as store:
        (batch,) = list(ga.NeighborLoader(store, [0], batch_size=300, output="torch"))
        assert batch.x.dtype == torch.float16
        assert torch.equal(batch.x, x.detach()[:, ::2].half())


def test_tensors_that_are_refused(tmp_path):
    import torch

    edges = torch.tensor([[0, 1], [1, 0]])
    with pytest.raises(ga.UnsupportedError, match="sparse"):
        ga.build(tmp_path / "s", edges, torch.eye(2).to_sparse())
    with pytest.raises(ga.UnsupportedError, match="device meta"):
        ga.build(tmp_path / "s", torch.empty((2, 4), dtype=torch.int64, device="meta"))
    with pytest.raises(ga.InputError, match="complex64"):
        ga.build(tmp_path / "s", edges, torch.zeros((2, 3), dtype=torch.complex64))
    for layout in (torch.strided, torch.jagged):
        nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=layout)
        with pytest.raises(ga.UnsupportedError, match="nested"):
            ga.build(tmp_path / "s", nested)
    emptied = torch.arange(6)
    emptied.untyped_storage().resize_(0)  # its repr fails
    with pytest.raises(ga.UsageError, match="feature_dtype=a Tensor is not"):
        ga.build(tmp_path / "s", edges, torch.ones(2, 3), feature_dtype=emptied)


def test_tensors_beyond_their_storage(tmp_path):
    """Memory that was taken from under a tensor is not read, and neither is what numpy puts in its place."""
    import torch

    edges = torch.tensor([[0, 1], [1, 0]])
    for left in (0, 8, 40):
        for x in (torch.ones(2, 3, dtype=torch.float64), torch.ones(2, 12, dtype=torch.bfloat16)):
            x.untyped_storage().resize_(left)
            with pytest.raises(ga.InputError, match="x is a tensor whose storage was freed"):
                ga.build(tmp_path / "s", edges, x)
    x = torch.arange(12.0).reshape(4, 3)
    x.untyped_storage().resize_(6 * 4)
    with ga.build(tmp_path / "s", edges, x[:2]) as store:  # what is left of it is whole
        np.testing.assert_array_equal(store.x[:], np.arange(6.0, dtype=np.float32).reshape(2, 3))


def test_importing_goagnes_does_not_import_torch():
    code = "import goagnes, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


@needs_pyg
def test_pyg_data(store, graph):
    import torch
    from torch_geometric.data import Data

    loader = ga.NeighborLoader(store, [4, 3], "train", batch_size=30)
    assert loader.output == "pyg"
    for data in loader:
        assert type(data) is Data
        data.validate(raise_on_error=True)
        assert data.num_nodes == len(data.n_id)
        assert data.batch_size == len(data.input_id) == 30
        assert sum(data.num_sampled_nodes) == data.num_nodes
        assert sum(data.num_sampled_edges) == data.num_edges
        assert torch.equal(data.x, torch.from_numpy(graph.x)[data.n_id])
        assert set(data.keys()) == {
            "x", "y", "edge_index", "n_id", "e_id", "input_id", "batch_size", "num_nodes",
            "num_sampled_nodes", "num_sampled_edges",
        }  # fmt: skip


@needs_pyg
def test_training_with_trimming(store):
    """A PyG model learns from the minibatches, trimmed layer by layer; full and trimmed outputs agree."""
    import torch
    from torch_geometric.nn import GraphSAGE

    torch.manual_seed(0)
    model = GraphSAGE(5, 16, num_layers=2, out_channels=4)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    loader = ga.NeighborLoader(store, [5, 5], "train", batch_size=30, shuffle=True, seed=1, output="pyg")
    losses = []
    for _ in range(20):
        for data in loader:
            out = model(data.x, data.edge_index)[: data.batch_size]
            trimmed = model(
                data.x,
                data.edge_index,
                num_sampled_nodes_per_hop=data.num_sampled_nodes,
                num_sampled_edges_per_hop=data.num_sampled_edges,
            )[: data.batch_size]
            assert torch.allclose(out, trimmed, atol=1e-5)
            target = data.y[: data.batch_size]
            loss = torch.nn.functional.cross_entropy(out, target, ignore_index=-1)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses.append(float(loss.detach()))
    assert np.mean(losses[-3:]) < np.mean(losses[:3])


@needs_pyg
def test_a_dataloader_worker_is_told(store):
    """torch's own workers fork or pickle; both are refused with advice."""
    import torch

    loader = ga.NeighborLoader(store, [2], output="torch")

    class Wrapped(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter(loader)

    with pytest.raises(RuntimeError, match="spawn"):
        next(
            iter(torch.utils.data.DataLoader(Wrapped(), batch_size=None, num_workers=1, multiprocessing_context="fork"))
        )
    plain = torch.utils.data.DataLoader(Wrapped(), batch_size=None, num_workers=0)
    assert sum(1 for _ in plain) == 300


def pyg_graph():
    import torch
    from torch_geometric.data import Data

    return Data(
        x=torch.arange(8, dtype=torch.float32).reshape(4, 2),
        edge_index=torch.tensor([[0, 1, 2], [1, 2, 0]]),
        y=torch.tensor([0, 1, 1, 0]),
        train_mask=torch.tensor([True, False, True, False]),
        val_mask=torch.tensor([False, True, False, False]),
        pos=torch.zeros(4, 3),
    )


def check_pyg(store):
    with store:
        assert (store.num_nodes, store.num_edges, store.num_features, store.num_classes) == (4, 3, 2, 2)
        assert sorted(store.splits) == ["train", "val"]
        (batch,) = list(ga.NeighborLoader(store, [-1], input_nodes="train", batch_size=4, output="numpy"))
        assert batch.n_id.tolist()[:2] == [0, 2]
        assert batch.x[0].tolist() == [0, 1]
        assert any("pos is not read" in note for note in store.build_report["notes"])


@needs_pyg
def test_build_takes_data(tmp_path):
    check_pyg(ga.build(tmp_path / "s", pyg_graph()))


@needs_pyg
def test_import_processed(tmp_path):
    import torch
    from torch_geometric.data import InMemoryDataset

    data = pyg_graph()
    (tmp_path / "cora" / "processed").mkdir(parents=True)
    InMemoryDataset.save([data], str(tmp_path / "cora" / "processed" / "data.pt"))
    check_pyg(ga.import_dataset(tmp_path / "a", tmp_path / "cora", format="pyg"))
    torch.save(data, tmp_path / "plain.pt")
    check_pyg(ga.import_dataset(tmp_path / "b", tmp_path / "plain.pt", format="pyg"))
    (tmp_path / "plain.pt.gz").write_bytes(gzip.compress((tmp_path / "plain.pt").read_bytes()))
    check_pyg(ga.import_dataset(tmp_path / "packed", tmp_path / "plain.pt.gz", format="pyg"))
    (tmp_path / "cut.pt.gz").write_bytes((tmp_path / "plain.pt.gz").read_bytes()[:-20])
    with pytest.raises(ga.InputError, match=r"cut\.pt\.gz"):
        ga.import_dataset(tmp_path / "c", tmp_path / "cut.pt.gz", format="pyg")
    InMemoryDataset.save([data, data], str(tmp_path / "two.pt"))
    with pytest.raises(ga.UnsupportedError, match="several graphs"):
        ga.import_dataset(tmp_path / "c", tmp_path / "two.pt", format="pyg")
    (tmp_path / "bad.pt").write_bytes(b"nothing")
    with pytest.raises(ga.InputError, match=r"bad\.pt"):
        ga.import_dataset(tmp_path / "c", tmp_path / "bad.pt", format="pyg")
    assert not (tmp_path / "c").exists()


def test_build_takes_sparse_tensors(tmp_path):
    import torch

    matrix = torch.sparse_coo_tensor([[0, 1, 2], [1, 2, 0]], [1.0, 1.0, 1.0], (4, 4))
    with ga.build(tmp_path / "s", matrix) as store:
        assert (store.num_nodes, store.num_edges) == (4, 3)
    with pytest.raises(ga.UnsupportedError, match="to_sparse_coo"):
        ga.build(tmp_path / "t", matrix.to_sparse_csr())
