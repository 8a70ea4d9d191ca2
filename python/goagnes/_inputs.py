"""The nodes whose neighbourhoods a loader samples: a split, indices, a mask, or all.

PyG checks none of this; a wrong id would be an out-of-range read or a silent
wrap-around there. Here every wrong value is an error naming it and its position.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from goagnes._arguments import shown
from goagnes._arrays import ArrayLike, to_numpy
from goagnes._errors import InputError, UnsupportedError

InputNodes = ArrayLike | str | None


def resolve(value: InputNodes, num_nodes: int, splits: Mapping[str, int]) -> tuple[dict[str, Any], object]:
    """The native description of input_nodes, and the memory it points at (our own copy)."""
    if value is None:
        return {}, None
    if isinstance(value, str):
        if value not in splits:
            known = ", ".join(sorted(splits)) or "none"
            raise InputError(f"input_nodes={shown(value)} names no split of the store; it has: {known}")
        return {"split": value}, None
    if isinstance(value, tuple) and len(value) == 2 and (value[0] is None or isinstance(value[0], str)):
        raise UnsupportedError(f"input_nodes=({value[0]!r}, …) names a node type; stores have one node type")
    return resolve_nodes("input_nodes", value, num_nodes)


def resolve_nodes(name: str, value: ArrayLike, num_nodes: int) -> tuple[dict[str, Any], object]:
    """The native description of node ids or of a mask, and the memory it points at (our own copy)."""
    array, dtype = to_numpy(name, value)
    if array.ndim != 1:
        raise InputError(f"{name} has shape {array.shape}; it must have one dimension")
    if dtype == "bool":
        if len(array) != num_nodes:
            raise InputError(f"{name} is a mask of length {len(array)}; the store has {num_nodes} nodes")
        mask = np.array(array, dtype=np.bool_, copy=True)
        return _described("mask", mask), mask
    if array.dtype.kind not in "iu" or dtype == "bfloat16":
        first = f"; the first is {array[0]!r}" if len(array) else ""
        raise InputError(f"{name} has element type {dtype}, not an integer or bool{first}")
    wrong = (array < 0) | (array >= num_nodes)
    if wrong.any():
        at = int(wrong.argmax())
        raise InputError(f"{name}[{at}] is {int(array[at])}; node ids of this store are 0 to {num_nodes - 1}")
    ids = np.array(array, dtype=np.int64, copy=True)
    return _described("ids", ids), ids


def _described(kind: str, array: np.ndarray[Any, Any]) -> dict[str, Any]:
    return {kind: {"address": array.__array_interface__["data"][0], "length": len(array)}}
