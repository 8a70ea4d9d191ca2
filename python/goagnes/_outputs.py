"""The forms that a loader delivers: numpy, torch, PyG. Heavy libraries load on use."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

from goagnes._arguments import shown, word
from goagnes._batch import Batch, numpy_batch
from goagnes._errors import UnsupportedError, UsageError

Convert = Callable[[tuple[Any, ...]], Any]

_MODULES = {"torch": ("torch",), "pyg": ("torch", "torch_geometric")}


def _installed(output: str) -> bool:
    try:
        return all(importlib.util.find_spec(module) is not None for module in _MODULES[output])
    except (ImportError, ValueError):
        return False


def resolve(output: str) -> tuple[str, Convert]:
    """The output's name, with "auto" decided, and what converts a minibatch to it."""
    output = word("output", output)
    if output == "auto":
        output = "pyg" if _installed("pyg") else "torch" if _installed("torch") else "numpy"
    if output == "numpy":
        return output, numpy_batch
    if output == "dgl":
        raise UnsupportedError('output="dgl" is not supported; use "numpy", "torch" or "pyg"')
    if output not in _MODULES:
        raise UsageError(f'output={shown(output)}; it must be "auto", "numpy", "torch" or "pyg"')
    if not _installed(output):
        missing = next(module for module in _MODULES[output] if importlib.util.find_spec(module) is None)
        raise UnsupportedError(f'output="{output}" needs {missing}: pip install "goagnes[{output}]"')
    return output, _torch() if output == "torch" else _pyg()


def _tensor() -> Callable[[Any], Any]:
    """What makes a torch tensor of a minibatch's array without copying it."""
    import torch

    def tensor(array: Any) -> Any:
        own = getattr(array, "torch", None)  # of an export's mapped array
        return torch.from_dlpack(array) if own is None else own()

    return tensor


def _torch() -> Convert:
    from_dlpack = _tensor()

    def convert(raw: tuple[Any, ...]) -> Batch:
        return Batch(raw, {name: from_dlpack(tensor) for name, tensor in raw[6].items()})

    return convert


def _pyg() -> Convert:
    from torch_geometric.data import Data

    from_dlpack = _tensor()

    def convert(raw: tuple[Any, ...]) -> Any:
        # As torch_geometric/loader/node_loader.py, filter_fn, fills its Data.
        data = Data()
        for name, tensor in raw[6].items():
            data[name] = from_dlpack(tensor)
        data.batch_size = raw[1]
        data.num_nodes = raw[2]
        data.num_sampled_nodes = list(raw[4])
        data.num_sampled_edges = list(raw[5])
        return data

    return convert
