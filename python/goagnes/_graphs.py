"""Graphs of other libraries as edges, features, labels and splits.

Nothing is imported that is not loaded: an object of a library can exist only where
that library is.
"""

from __future__ import annotations

import gzip
import importlib
import io
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from goagnes._errors import InputError, UnsupportedError

_SPLITS = {"train_mask": "train", "val_mask": "val", "test_mask": "test"}


@dataclass
class Graph:
    """What an object holds for a build."""

    edge_index: Any
    x: Any = None
    y: Any = None
    num_nodes: int | None = None
    splits: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def unpack(value: object) -> Graph | None:
    """The graph in an object of PyG, networkx, scipy or torch; None for any other value."""
    for module, name, read in (
        ("torch_geometric.data", "Data", _data),
        ("torch_geometric.data", "HeteroData", _hetero),
        ("networkx", "Graph", _networkx),
        ("torch", "Tensor", _sparse_tensor),
    ):
        kind = getattr(sys.modules.get(module), name, None)
        if kind is not None and isinstance(value, kind):
            return read(value)
    sparse = sys.modules.get("scipy.sparse")
    if sparse is not None and sparse.issparse(value):
        return _scipy(value)
    return None


def _hetero(value: Any) -> Graph:
    raise UnsupportedError("edge_index is a HeteroData; stores have one type of node and edge: see to_homogeneous")


def _data(value: Any) -> Graph:
    return from_mapping(value.to_dict(), value.num_nodes, "edge_index")


def from_mapping(fields: Mapping[str, Any], num_nodes: int | None, name: str) -> Graph:
    """The graph in the fields of a PyG Data object."""
    if fields.get("edge_index") is None:
        have = ", ".join(str(key) for key in list(fields)[:12])
        raise InputError(f"{name} has no edge_index; it has {have or 'nothing'}")
    graph = Graph(fields["edge_index"], fields.get("x"), fields.get("y"), num_nodes)
    for key, mask in fields.items():
        if key in _SPLITS and mask is not None:
            if mask.ndim != 1:
                raise UnsupportedError(
                    f"{name}.{key} has shape {tuple(mask.shape)}, several splits;"
                    f" keep one, as data.{key} = data.{key}[:, 0]"
                )
            graph.splits[_SPLITS[key]] = mask
        elif key not in ("edge_index", "x", "y", "num_nodes") and mask is not None:
            graph.notes.append(f"{name}.{key} is not read")
    y = graph.y
    if y is not None and getattr(y, "ndim", 1) == 2 and y.shape[1] > 1:
        graph.y = None
        graph.notes.append(f"{name}.y has shape {tuple(y.shape)}, several labels a node, and is not read")
    return graph


def _networkx(value: Any) -> Graph:
    place = {node: i for i, node in enumerate(value)}
    pairs = np.fromiter((place[node] for edge in value.edges() for node in edge), np.int64).reshape(-1, 2).T
    graph = Graph(pairs, num_nodes=len(place))
    if not value.is_directed():
        back = pairs[::-1, pairs[0] != pairs[1]]
        graph.edge_index = np.hstack([pairs, back])
        graph.notes.append(
            f"networkx: an undirected graph of {pairs.shape[1]} edges; {back.shape[1]} reverse edges follow them"
            " (a self-loop has none)"
        )
    graph.notes.append("networkx: node i is the i-th of G.nodes; attributes are not read")
    return graph


def _scipy(value: Any) -> Graph:
    if value.ndim != 2 or value.shape[0] != value.shape[1]:
        raise InputError(f"edge_index is a sparse matrix of shape {value.shape}; an adjacency matrix is square")
    entries = value.tocoo()
    notes = ["scipy: entry (i, j) is the edge i -> j, in the order of storage; values are not read"]
    return Graph(np.stack([entries.row, entries.col]), num_nodes=value.shape[0], notes=notes)


def _sparse_tensor(value: Any) -> Graph | None:
    import torch

    if value.layout == torch.strided or value.is_nested:
        return None
    if value.layout != torch.sparse_coo:
        raise UnsupportedError(f"edge_index is a {value.layout} tensor; call .to_sparse_coo() first")
    if value.device.type != "cpu":
        raise UnsupportedError(f"edge_index is on device {value.device}; call .cpu() first")
    if value.sparse_dim() != 2 or value.shape[0] != value.shape[1]:
        raise InputError(f"edge_index is a sparse tensor of shape {tuple(value.shape)}; an adjacency matrix is square")
    notes = ["torch: entry (i, j) is the edge i -> j, in the order of storage; values are not read"]
    return Graph(value.detach()._indices(), num_nodes=int(value.shape[0]), notes=notes)


def load_pyg(source: str) -> Graph:
    """The graph in a processed file of PyG, read by torch: the file is a pickle, and code in it is run."""
    try:
        import torch
        import torch_geometric  # noqa: F401  (its classes are in the pickle)
    except ImportError as error:
        raise UnsupportedError(
            f'format="pyg" needs torch and torch-geometric: pip install "goagnes[pyg]" ({error})'
        ) from None
    path = _processed(source)
    try:
        held = torch.load(_opened(path), map_location="cpu", weights_only=False)
    except UnsupportedError:
        raise
    except Exception as error:  # unpickling raises whatever it likes
        raise InputError(f"{path}: cannot be read by torch.load: {type(error).__name__}: {error}") from error
    slices = None
    if isinstance(held, tuple) and len(held) in (2, 3):
        held, slices = held[0], held[1]
    if isinstance(slices, Mapping) and any(len(ends) > 2 for ends in slices.values() if hasattr(ends, "__len__")):
        raise UnsupportedError(f"{path}: holds several graphs; a store has one")
    num_nodes = None
    if not isinstance(held, Mapping):
        if not hasattr(held, "to_dict"):
            raise InputError(f"{path}: holds a {type(held).__name__}, where a Data object of PyG is due")
        num_nodes = getattr(held, "num_nodes", None)
        held = held.to_dict()
    elif isinstance(held.get("num_nodes"), int):
        num_nodes = held["num_nodes"]
    return from_mapping(held, num_nodes if isinstance(num_nodes, int) else None, path)


def _opened(path: str) -> Any:
    """What torch.load reads: the path, or the content of a file within gzip or zstd."""
    with open(path, "rb") as file:
        head = file.read(4)
    if head.startswith(b"\x1f\x8b"):
        with gzip.open(path) as packed:
            return io.BytesIO(packed.read())
    if head == b"\x28\xb5\x2f\xfd":
        try:
            zstd = importlib.import_module("compression.zstd")
        except ImportError:
            raise UnsupportedError(
                f"{path}: is compressed by zstd, which this Python does not have; decompress it with zstd -d"
            ) from None
        with zstd.open(path) as packed:
            return io.BytesIO(packed.read())
    return path


def _processed(source: str) -> str:
    """The one file of data in a folder of a PyG data set."""
    if not os.path.isdir(source):
        return source
    inner = os.path.join(source, "processed")
    folder = inner if os.path.isdir(inner) else source
    skip = {"pre_filter.pt", "pre_transform.pt"}
    found = sorted(name for name in os.listdir(folder) if name.endswith(".pt") and name not in skip)
    if len(found) != 1:
        raise InputError(f"{folder}: {len(found)} .pt files ({', '.join(found[:12])}); name one of them")
    return os.path.join(folder, found[0])
