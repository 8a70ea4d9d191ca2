"""The plain sampler against minibatches that PyTorch Geometric made (deterministic cases only)."""

from __future__ import annotations

import golden
import pytest
from oracle.sampler import Oracle


@pytest.mark.parametrize("vector", golden.vectors("plain"), ids=golden.name)
def test_oracle_equals_pyg(vector):
    graph, args = vector["graph"], vector["loader_args"]
    oracle = Oracle(golden.edges(graph), graph["num_nodes"])
    got = list(
        oracle.epoch(
            args["num_neighbors"],
            golden.input_nodes(args),
            args["batch_size"],
            seed=0,
            drop_last=args.get("drop_last", False),
        )
    )
    golden.check(vector, got)
