"""Minibatches made by PyTorch Geometric on tiny graphs, from the folder ../shared/golden.

The vectors are a public corpus beside the repository, never copied into it; where the folder is
absent, the tests that need it skip and say so.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
FOLDER = ROOT.parent / "shared" / "golden"

# What sets a vector apart from plain neighbour sampling: an argument, or a field of the graph.
_ARGUMENTS = {"disjoint", "subgraph_type", "time_attr", "input_time", "weight_attr", "temporal_strategy"}


def kind(vector: dict[str, Any]) -> str:
    """The kind of a vector: "plain", or what it needs beyond plain sampling."""
    if vector["graph"]["kind"] != "homogeneous":
        return "hetero"
    if "loader" in vector["loader_args"]:
        return "link"
    args = vector["loader_args"]
    special = sorted(
        name
        for name in _ARGUMENTS
        if args.get(name) not in (None, False) and (name, args[name]) != ("subgraph_type", "directional")
    )
    return special[0] if special else "plain"


def vectors(wanted: str | None = None) -> list[Any]:
    """Pytest parameters: all vectors of a kind, or of every kind but "plain" when it is "other"."""
    if not FOLDER.is_dir():
        reason = "no folder ../shared/golden beside the repository: the PyG vectors are not part of it"
        return [pytest.param(None, marks=pytest.mark.skip(reason=reason))]
    every = [json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))]
    return [v for v in every if (kind(v) == "plain") == (wanted == "plain")]


def name(vector: dict[str, Any] | None) -> str:
    return vector["name"] if vector else "absent"


def edges(graph: dict[str, Any]) -> np.ndarray:
    return np.array(graph["edge_index"], np.int64).reshape(2, -1)


def input_nodes(args: dict[str, Any]) -> np.ndarray | None:
    nodes = args.get("input_nodes")
    if nodes is None:
        return None
    return np.array(nodes, bool if nodes and isinstance(nodes[0], bool) else np.int64)


def check(vector: dict[str, Any], batches: list[Any]) -> None:
    """Every array that PyG gives, in order; null where PyG has none."""
    assert vector["expect"] == "exact"
    assert len(batches) == len(vector["batches"])
    for i, (got, want) in enumerate(zip(batches, vector["batches"], strict=True)):
        for field in ("n_id", "e_id", "input_id"):
            if want[field] is not None:
                assert np.asarray(getattr(got, field)).tolist() == want[field], f"minibatch {i}: {field}"
        assert np.asarray(got.edge_index).reshape(2, -1).tolist() == edges(want).tolist(), f"minibatch {i}"
        for field in ("num_sampled_nodes", "num_sampled_edges"):
            if want[field] is not None:
                assert list(getattr(got, field)) == want[field], f"minibatch {i}: {field}"
