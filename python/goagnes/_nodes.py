"""Arrays of a store, read on demand: rows, ids, in-edges, splits.

Results are numpy arrays that the native library fills in place; bfloat16, which
numpy does not have, comes as a torch tensor. Reading is a task like any other:
interruptible, and refused with the number of bytes where a result is larger than
the store's memory.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from goagnes import _arguments, _tasks
from goagnes._arguments import shown
from goagnes._arrays import ArrayLike, to_numpy
from goagnes._errors import BudgetError, InputError, UnsupportedError, UsageError

if TYPE_CHECKING:
    from goagnes._store import Store

Array = np.ndarray[Any, Any]


def address(array: Array) -> dict[str, Any]:
    """The native description of a C-ordered array."""
    return {"address": array.__array_interface__["data"][0], "length": array.size}


def read(store: Store, kind: str, *keep: Array, **request: Any) -> Any:
    """Runs one read of the store; ``keep`` are the arrays that the request points at."""
    return _tasks.run(kind, {"store": store.handle, **request}, keep=keep)


def room(store: Store, what: str, shape: tuple[int, ...], dtype: Any) -> Array:
    """An array for a result, refused where it is larger than the store's memory."""
    needed = np.dtype(dtype).itemsize
    for n in shape:
        needed *= n
    if needed > store.memory:
        allowed = f"the store's memory is {store.memory:,}: set memory to {needed} or more"
        raise BudgetError(f"{what} needs {needed:,} bytes, {allowed}")
    return np.empty(shape, dtype)


def id_list(name: str, value: ArrayLike) -> Array:
    """Integers of one dimension as int64, C-ordered."""
    array, dtype = to_numpy(name, value)
    if array.ndim != 1:
        raise InputError(f"{name} has shape {array.shape}; it must have one dimension")
    if array.dtype.kind not in "iu" or dtype == "bfloat16":
        raise InputError(f"{name} has element type {dtype}, not an integer")
    if array.dtype == np.uint64 and array.size and int(array.max()) >= 1 << 63:
        at = int(array.argmax())
        raise InputError(f"{name}[{at}] is {int(array[at])}, which is no id")
    return np.ascontiguousarray(array, dtype=np.int64)


class NodeArray:
    """One array of a store's nodes, left on disk: rows are read when they are asked for.

    ``array[5]``, ``array[-1]``, ``array[10:20]``, ``array[[3, 3, 7]]`` and
    ``array[mask]`` read as numpy indexes the first dimension (any order, repeated ids;
    a tuple indexes what was read further); ``array[:]`` and ``numpy.asarray(array)``
    read all of it. Pages are read once each, merged, whatever the order of the ids. The
    result is a numpy array, a copy; bfloat16 comes as a torch tensor, and is refused
    where torch is not installed.

    A result larger than the store's ``memory`` is refused with BudgetError and the
    bytes needed; ids outside the nodes with IndexError.
    """

    def __init__(self, store: Store, name: str, dtype: str, row_shape: tuple[int, ...]) -> None:
        self._store = store
        self._name = name
        self._dtype = dtype
        self._row = row_shape

    @property
    def name(self) -> str:
        """The array's name, such as "x"."""
        return self._name

    @property
    def shape(self) -> tuple[int, ...]:
        """``(num_nodes, …)``."""
        return (self._store.num_nodes, *self._row)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return 1 + len(self._row)

    @property
    def dtype(self) -> Any:
        """The numpy dtype; the text "bfloat16" for that."""
        return self._dtype if self._dtype == "bfloat16" else np.dtype(self._dtype)

    @property
    def size(self) -> int:
        """The number of elements."""
        n = 1
        for length in self.shape:
            n *= length
        return n

    @property
    def nbytes(self) -> int:
        """The bytes of all of it."""
        return self.size * self._stored().itemsize

    def __len__(self) -> int:
        return self._store.num_nodes

    def __iter__(self) -> Iterator[Any]:
        step = max(1, (1 << 20) // max(1, self.nbytes // max(1, len(self))))
        for first in range(0, len(self), step):
            yield from self[first : first + step]

    def __getitem__(self, key: Any) -> Any:
        rest: tuple[Any, ...] = ()
        if isinstance(key, tuple):
            if not key:
                return self[:]
            key, rest = key[0], key[1:]
        if key is Ellipsis:
            key, rest = slice(None), ((Ellipsis, *rest) if rest else ())
        for part in rest:
            if not (part is Ellipsis or isinstance(part, slice) or _arguments.index(part) is not None):
                raise UnsupportedError(
                    f"{shown(part)} after the nodes of {self._name}; index the rows that were read instead"
                )
        if isinstance(key, slice):
            first, stop, step = key.indices(len(self))
            rows = self._rows(len(range(first, stop, step)), first=first, step=step)
        elif (one := _arguments.index(key)) is not None:
            row = self._rows(1, ids=self._ids([one]))[0]
            return row[rest] if rest else row
        else:
            index = self._index(key)
            rows = self._rows(len(index), ids=index)
        return rows[(slice(None), *rest)] if rest else rows

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError(f"store array {self._name!r} is on disk: reading it is a copy")
        if self._dtype == "bfloat16":
            raise UnsupportedError(f"{self._name} is bfloat16, which numpy does not have; index it for a torch tensor")
        try:
            dtype = None if dtype is None else np.dtype(dtype)
        except (ValueError, SyntaxError, RuntimeError):  # numpy reads texts as expressions, and shows what it refuses
            raise TypeError(f"dtype={shown(dtype)} is not an element type") from None
        whole: Array = self[:]
        return whole if dtype is None else whole.astype(dtype, copy=False)

    def __repr__(self) -> str:
        return f"<goagnes.NodeArray {self._name!r} {self.shape} {self._dtype}>"

    def _stored(self) -> np.dtype[Any]:
        return np.dtype(np.uint16 if self._dtype == "bfloat16" else self._dtype)

    def _index(self, key: Any) -> Array:
        array, dtype = to_numpy("the index", key)
        if array.ndim != 1:
            raise InputError(f"the index has shape {array.shape}; ids and masks have one dimension")
        if dtype == "bool":
            if len(array) != len(self):
                raise IndexError(f"the mask has length {len(array)}, the store {len(self)} nodes")
            return np.flatnonzero(array).astype(np.int64, copy=False)
        return self._ids(id_list("the index", array))

    def _ids(self, given: Array | list[int]) -> Array:
        ids = np.asarray(given)  # of objects where an integer is past int64
        wrong = (ids < -len(self)) | (ids >= len(self))
        if wrong.any():
            at = int(wrong.argmax())
            raise IndexError(f"node {shown(int(ids[at]))} at position {at}; the store has nodes 0 to {len(self) - 1}")
        return np.where(ids < 0, ids + len(self), ids).astype(np.int64, copy=False)

    def _rows(self, n: int, *, ids: Array | None = None, first: int = 0, step: int = 1) -> Any:
        self._check()
        out = room(self._store, f"{n:,} rows of {self._name}", (n, *self._row), self._stored())
        if ids is None:
            self._fill(out, first=first, step=step, count=n)
        else:
            self._fill(out, ids, ids=address(ids))
        return self._delivered(out)

    def whole(self) -> Any:
        """All rows, however many bytes they are: for a caller that has asked for that many."""
        self._check()
        out = np.empty(self.shape, self._stored())
        row = max(1, self.nbytes // max(1, len(self)))
        most = max(1, self._store.memory // row)
        for first in range(0, len(self), most):
            part = out[first : first + most]
            self._fill(part, first=first, step=1, count=len(part))
        return self._delivered(out)

    def _fill(self, out: Array, *keep: Array, **where: Any) -> None:
        if out.size:
            target = {"address": address(out)["address"], "length": out.nbytes}
            read(self._store, "rows", out, *keep, name=self._name, out=target, **where)

    def _check(self) -> None:
        if self._dtype == "bfloat16" and importlib.util.find_spec("torch") is None:
            raise UnsupportedError(f'{self._name} is bfloat16, which numpy does not have; pip install "goagnes[torch]"')

    def _delivered(self, out: Array) -> Any:
        if self._dtype != "bfloat16":
            return out
        import torch

        return torch.from_numpy(out).view(torch.bfloat16)


def split_nodes(store: Store, name: str) -> Array:
    """The nodes of a split, in its order, int64."""
    out = room(store, f"split {name!r}", (store.splits[name],), np.int64)
    if len(out):
        read(store, "split", out, name=name, out=address(out))
    return out


def split_mask(store: Store, name: str) -> Array | None:
    """A bool for every node: whether it is in the split. None where there is no such split."""
    if name not in store.splits:
        return None
    mask = room(store, f"the mask of {name!r}", (store.num_nodes,), np.bool_)
    mask[:] = False
    mask[split_nodes(store, name)] = True
    return mask


def neighbors(store: Store, v: int) -> tuple[Array, Array]:
    """See Store.neighbors."""
    node = _arguments.index(v)
    if node is None:
        raise UsageError(f"v={shown(v)} is not an integer")
    if not 0 <= node < store.num_nodes:
        raise UsageError(f"v={shown(v)}; node ids of this store are 0 to {store.num_nodes - 1}")
    n = 1024  # nearly always enough: the block is read once
    while True:
        sources, edges = (room(store, f"{n:,} in-edges", (n,), np.int64) for _ in range(2))
        into = {"out": address(sources), "edges": address(edges)}
        degree: int = read(store, "neighbors", sources, edges, node=node, **into)["degree"]
        if degree <= n:
            return sources[:degree].copy(), edges[:degree].copy()
        n = degree


def map_ids(store: Store, kind: str, ids: ArrayLike) -> Any:
    """Ids of one dimension, or one id, translated by the native work ``kind``."""
    one = _arguments.index(ids)
    given = id_list("ids", ids if one is None else [one])
    out = np.empty(len(given), np.int64)
    if len(given):
        read(store, kind, out, given, ids=address(given), out=address(out))
    return out if one is None else int(out[0])
