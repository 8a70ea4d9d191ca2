"""goagnes' loader against minibatches that PyTorch Geometric made."""

from __future__ import annotations

import golden
import numpy as np
import pytest

import goagnes as ga


@pytest.mark.parametrize("order", ["original", "degree", "bfs"])
@pytest.mark.parametrize("vector", golden.vectors("plain"), ids=golden.name)
def test_loader_equals_pyg(vector, order, tmp_path):
    graph, args = vector["graph"], vector["loader_args"]
    n = graph["num_nodes"]
    x = np.arange(n, dtype=np.float32).reshape(n, 1)
    ga.build(str(tmp_path / "s"), edge_index=golden.edges(graph), x=x, num_nodes=n, order=order).close()
    with ga.open(str(tmp_path / "s")) as store:
        loader = ga.NeighborLoader(
            store,
            args["num_neighbors"],
            input_nodes=golden.input_nodes(args),
            batch_size=args["batch_size"],
            drop_last=args.get("drop_last", False),
            seed=0,
            output="numpy",
        )
        batches = list(loader)
        golden.check(vector, batches)
        for batch in batches:
            assert np.array_equal(np.asarray(batch.x)[:, 0], np.asarray(batch.n_id))
        loader.close()


@pytest.mark.parametrize("vector", golden.vectors("other"), ids=golden.name)
def test_other_kinds_are_refused_by_name(vector, tmp_path):
    """What is not supported says so, naming the argument; it never samples something else."""
    graph, args = vector["graph"], dict(vector["loader_args"])
    kind = golden.kind(vector)
    if kind == "hetero":
        with pytest.raises(ga.UnsupportedError):
            ga.build(str(tmp_path / "s"), edge_index={("a", "to", "b"): np.zeros((2, 1))})
        return
    if kind == "link":
        assert not hasattr(ga, "LinkNeighborLoader")
        return
    n = graph["num_nodes"]
    ga.build(str(tmp_path / "s"), edge_index=golden.edges(graph), num_nodes=n).close()
    args["input_nodes"] = golden.input_nodes(args)
    if args.get("input_time") is not None:
        args["input_time"] = np.array(args["input_time"])
    with ga.open(str(tmp_path / "s")) as store, pytest.raises(ga.UnsupportedError) as raised:
        ga.NeighborLoader(store, **args)
    assert isinstance(raised.value, ValueError)
    special = [name for name in args if name not in ("num_neighbors", "input_nodes", "batch_size")]
    assert any(name in str(raised.value) for name in special), str(raised.value)
