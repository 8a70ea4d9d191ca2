"""One minibatch: arrays in the loader's memory, by attribute or by key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np

# Present in some minibatches only; reading an absent one gives None, as in PyG.
_OPTIONAL = frozenset({"x", "y", "e_id", "edge_attr", "batch", "seed_time"})


class Batch:
    """A sampled subgraph with the features and labels of its nodes.

    Arrays (numpy, or torch where the loader's output is "torch"); N nodes, E edges,
    S seeds:

    ``x``           (N, features…) features of all nodes, in the store's element type
    ``y``           (N, …) labels of all nodes; slice ``[:batch_size]`` for the seeds'
    ``n_id``        (N,) int64, the node ids of the imported data; seeds first
    ``edge_index``  (2, E) int64, local source and target
    ``e_id``        (E,) int64, positions in the imported list of edges
    ``input_id``    (S,) int64, positions in ``input_nodes``, or node ids for a mask or None

    and ``batch_size`` (S), ``num_nodes``, ``num_edges``, ``index`` (the minibatch's
    number in its epoch), ``num_sampled_nodes`` (new nodes: seeds, then per hop) and
    ``num_sampled_edges`` (per hop). ``x``, ``y`` and ``e_id`` are None where the store
    or the loader has none; as keys they are then absent. Arrays can be replaced and
    added: ``batch.x = batch.x / 255``.

    The arrays are views: they keep the minibatch's memory, which is the loader's
    budget, until the last of them is dropped. Copy what is to be kept for long.
    numpy has no bfloat16: such an array comes as uint16 holding the bits.
    """

    __slots__ = ("_arrays", "batch_size", "index", "num_edges", "num_nodes", "num_sampled_edges", "num_sampled_nodes")

    index: int
    batch_size: int
    num_nodes: int
    num_edges: int
    num_sampled_nodes: list[int]
    num_sampled_edges: list[int]

    def __init__(self, raw: tuple[Any, ...], arrays: dict[str, Any]) -> None:
        self.index, self.batch_size, self.num_nodes, self.num_edges = raw[:4]
        self.num_sampled_nodes, self.num_sampled_edges = list(raw[4]), list(raw[5])
        self._arrays = arrays

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return self._arrays[name]
        except KeyError:
            if name in _OPTIONAL:
                return None
            raise AttributeError(f"the minibatch has no {name!r}; it has {', '.join(self._arrays)}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__slots__:
            object.__setattr__(self, name, value)
        else:
            self._arrays[name] = value

    def __setitem__(self, name: str, value: Any) -> None:
        setattr(self, name, value)

    def __getitem__(self, name: str) -> Any:
        if name in self._arrays:
            return self._arrays[name]
        if name in self.__slots__ and not name.startswith("_"):
            return getattr(self, name)
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        return name in self._arrays

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def keys(self) -> list[str]:
        """The names of the arrays."""
        return list(self._arrays)

    def items(self) -> list[tuple[str, Any]]:
        """Names and arrays."""
        return list(self._arrays.items())

    def to(self, *args: Any, **kwargs: Any) -> Batch:
        """Replaces every torch tensor by ``tensor.to(*args, **kwargs)``, and returns the minibatch."""
        for name, array in self._arrays.items():
            if not hasattr(array, "to"):
                raise TypeError(f'to() is for torch tensors, {name} is a {type(array).__name__}; use output="torch"')
            self._arrays[name] = array.to(*args, **kwargs)
        return self

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name}={list(getattr(array, 'shape', []))}" for name, array in self._arrays.items())
        return f"Batch({shapes}, batch_size={self.batch_size})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a goagnes Batch cannot be pickled: its arrays are views of the loader's memory")


def numpy_batch(raw: tuple[Any, ...]) -> Batch:
    """A minibatch of numpy arrays sharing the memory."""
    return Batch(raw, {name: np.asarray(tensor) for name, tensor in raw[6].items()})
