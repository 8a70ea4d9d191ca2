"""A whole store as one torch_geometric Data."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

import numpy as np

from goagnes import _nodes, _tasks
from goagnes._errors import BudgetError, UnsupportedError
from goagnes._progress import ProgressArgument
from goagnes._sizes import parse_size

if TYPE_CHECKING:
    from goagnes._store import Store


def to_pyg(store: Store, limit: int | str | None, progress: ProgressArgument) -> Any:
    """See Store.to_pyg."""
    for module in ("torch", "torch_geometric"):
        if importlib.util.find_spec(module) is None:
            raise UnsupportedError(f'to_pyg needs {module}: pip install "goagnes[pyg]"')
    arrays = store.arrays
    masks = [name for name in ("train", "val", "test") if name in store.splits]
    places = int(store.info()["edge_id_range"])  # with gaps where edges were dropped at import
    gaps = places > store.num_edges
    needed = (
        16 * places
        + 24 * store.num_edges * gaps
        + sum(array.nbytes for array in arrays.values())
        + len(masks) * store.num_nodes
    )
    most = store.memory if limit is None else parse_size("limit", limit)
    if needed > most:
        raise BudgetError(
            f"to_pyg needs {needed:,} bytes, {most:,} are allowed: pass limit={needed} where the machine has the memory"
        )
    import torch
    from torch_geometric.data import Data

    edges = np.empty((2, places), np.int64)
    if places:
        sources, targets = _nodes.address(edges[0]), _nodes.address(edges[1])
        request = {"store": store.handle, "out": sources, "edges": targets}
        _tasks.run("edges", request, progress=progress, keep=edges)
    ids = np.flatnonzero(edges[0] >= 0) if gaps else None
    if ids is not None:
        edges = edges[:, ids]
    data = Data(edge_index=torch.from_numpy(edges))
    if ids is not None:
        data.e_id = torch.from_numpy(ids)
    data.num_nodes = store.num_nodes
    for name, array in arrays.items():
        rows = array.whole()
        data[name] = torch.from_numpy(rows) if isinstance(rows, np.ndarray) else rows
    for name in masks:
        data[f"{name}_mask"] = torch.from_numpy(_nodes.split_mask(store, name))
    return data
