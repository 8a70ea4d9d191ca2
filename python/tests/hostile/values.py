"""Values that no function wants: wrong types, extreme numbers, odd texts and arrays, and objects that lie.

Each is a pair of a name, for the report, and a function that makes a fresh one.
"""

from __future__ import annotations

import array
import ctypes
import itertools
import mmap
import os
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

Value = tuple[str, Callable[[], Any]]


class CallerError(Exception):
    """What the hostile objects raise: it has to reach their caller as it is."""


class _Raises:
    """Every way to read it raises."""

    def _refuse(self, *_: Any) -> Any:
        raise CallerError

    __index__ = __int__ = __float__ = __len__ = __iter__ = __getitem__ = _refuse
    __array__ = __fspath__ = __bool__ = __eq__ = __str__ = __call__ = _refuse
    __hash__ = object.__hash__


class _Nameless:
    """It cannot be shown in an error's text."""

    def __repr__(self) -> str:
        raise CallerError


class _Liar:
    """Its methods return values of wrong kinds."""

    def __index__(self) -> Any:
        return "1"

    def __fspath__(self) -> Any:
        return 1

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return "no array"

    def __len__(self) -> int:
        return -1


class _Interface:
    """An array interface over the address 8, of elements that are not there."""

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {"shape": (-1, 2), "typestr": "<i8", "data": (8, True), "version": 3}


class _Text(str):
    """A text of a class of its own."""


class _Integer(int):
    """An integer of a class of its own."""


def _itself() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


def _unaligned() -> np.ndarray[Any, Any]:
    return np.frombuffer(bytearray(8 * 6 + 1), np.int64, count=6, offset=1)


def _read_only() -> np.ndarray[Any, Any]:
    rows = np.arange(6)
    rows.flags.writeable = False
    return rows


def _released() -> memoryview:
    view = memoryview(bytearray(8))
    view.release()
    return view


def _closed_map() -> mmap.mmap:
    pages = mmap.mmap(-1, 4096)
    pages.close()
    return pages


def _constants(*values: Any) -> Iterator[Value]:
    for value in values:
        text = repr(value)
        yield (text if len(text) < 40 else f"{text[:37]}…"), lambda value=value: value


SCALARS: list[Value] = [
    *_constants(
        *(None, True, False, 0, 1, -1, 2**31, 2**32 - 1, 2**62, 2**63 - 1, 2**63, 2**64, -(2**63), 2**200),
        *(0.0, -0.0, 0.5, -1.5, float("nan"), float("inf"), float("-inf"), 1e308, 5e-324, 1j),
        *("", " ", "x", "a\0b", "\udcff", "é", "../", "9" * 5000, "-1", "nan", "1e999", "0x10", "None", "%s%n"),
        *(b"", b"bytes", ..., NotImplemented, int, len, os, object()),
        *(np.int8(-1), np.uint64(2**64 - 1), np.float32("nan"), np.bool_(True), np.str_("x"), np.bytes_(b"x")),
        np.datetime64("2020-01-01"),
    ),
    ("an integer of 5001 digits", lambda: 10**5000),
    ("a range longer than memory", lambda: range(2**70)),
    ("a long text", lambda: "x" * 100_000),
    ("a bytes path that is no text", lambda: os.fsencode("/tmp/\udcff")),
    ("a path that is no UTF-8", lambda: pathlib.Path("/tmp/\udcff/\udc80")),
    ("an int's own class", lambda: _Integer(3)),
    ("a str's own class", lambda: _Text("train")),
    ("an object that raises", _Raises),
    ("an object without repr", _Nameless),
    ("an object that lies", _Liar),
    ("an object with a false array interface", _Interface),
    ("an exception", lambda: ValueError("no")),
    ("a generator", lambda: (i for i in range(3))),
    ("an endless iterator", lambda: itertools.repeat(1)),
    ("a huge range", lambda: range(10**12)),
    ("a pointer", lambda: ctypes.c_void_p(8)),
    ("a function that raises", lambda: _Raises()._refuse),
]

CONTAINERS: list[Value] = [
    *_constants([], [None], ["x"], [1.5], [float("nan")], [[1], [2, 3]], [True], [-1], [2**63], [2**200], [[]], [{}]),
    *_constants((), (1, 2), ("x", [1]), {}, {"train": None}, {1: [1]}, {"": [0]}, {"a\0b": [0]}, {"\udcff": [0]}),
    *_constants({1, 2}, frozenset(), slice(None), slice("a", None), slice(2**70, -(2**70), 2**65), (..., ...)),
    ("a list within itself", _itself),
    ("a bytearray", lambda: bytearray(16)),
    ("a released memoryview", _released),
    ("a closed memory map", _closed_map),
    ("an array.array", lambda: array.array("q", [0, 1])),
]

ARRAYS: list[Value] = [
    ("an array of objects", lambda: np.array([object(), None])),
    ("an array of texts", lambda: np.array(["a", "b"])),
    ("a complex array", lambda: np.ones((2, 3), np.complex128)),
    ("a structured array", lambda: np.zeros(3, [("a", "i4"), ("b", "f8")])),
    ("an array of dates", lambda: np.array(["2020-01-01"], "M8[D]")),
    ("an array of void", lambda: np.zeros(3, "V5")),
    ("a long double array", lambda: np.ones(3, np.longdouble)),
    ("a float array", lambda: np.ones((2, 3))),
    ("an array of NaN", lambda: np.full((2, 3), np.nan)),
    ("an array of infinities", lambda: np.full(3, np.inf, np.float32)),
    ("a bool array", lambda: np.ones((2, 3), bool)),
    ("an array of no dimension", lambda: np.array(1)),
    ("an array of no dimension, float", lambda: np.array(0.5)),
    ("an empty array", lambda: np.empty(0, np.int64)),
    ("an empty array of two dimensions", lambda: np.empty((2, 0), np.int64)),
    ("an empty array of many dimensions", lambda: np.empty((0, 3, 0, 2), np.uint8)),
    ("an array of 32 dimensions", lambda: np.zeros((1,) * 32, np.int64)),
    ("an array with a negative id", lambda: np.array([[0, 1], [1, -1]])),
    ("an array with a huge id", lambda: np.array([[0, 2**63 - 1], [1, 0]])),
    ("an array with an unsigned huge id", lambda: np.array([2**64 - 1], np.uint64)),
    ("a byte-swapped array", lambda: np.arange(6).astype(">i8").reshape(2, 3)),
    ("a Fortran array", lambda: np.asfortranarray(np.arange(6).reshape(2, 3))),
    ("a reversed array", lambda: np.arange(6).reshape(2, 3)[::-1, ::-2]),
    ("a broadcast array", lambda: np.broadcast_to(np.int64(0), (2, 5))),
    ("a read-only array", _read_only),
    ("an unaligned array", _unaligned),
    ("a masked array", lambda: np.ma.array([0, 1, 2], mask=[0, 1, 0])),
    ("a matrix", lambda: np.arange(6).view(type("Own", (np.ndarray,), {}))),
    ("an array of an exabyte that is one element", lambda: np.broadcast_to(np.int64(0), (2, 1 << 57))),
]

ALL = SCALARS + CONTAINERS + ARRAYS


def tensors() -> list[Value]:
    """Torch's own odd arrays."""
    import torch

    return [
        ("a complex tensor", lambda: torch.ones(3, dtype=torch.complex64)),
        ("a conjugated tensor", lambda: torch.ones(3, dtype=torch.complex64).conj()),
        ("a negated view", lambda: torch.tensor([1j, 2j]).imag.neg()),
        ("a tensor without memory", lambda: torch.ones(3, device="meta")),
        ("a sparse tensor", lambda: torch.eye(3).to_sparse()),
        ("a sparse tensor by rows", lambda: torch.eye(3).to_sparse_csr()),
        ("a quantized tensor", lambda: torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)),
        ("a nested tensor", lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])),
        ("a tensor with a gradient", lambda: torch.ones(2, 3, requires_grad=True)),
        ("a bfloat16 tensor", lambda: torch.ones(2, 3, dtype=torch.bfloat16)),
        ("an 8-bit float tensor", lambda: torch.ones(3).to(torch.float8_e5m2)),
        ("a tensor of no dimension", lambda: torch.tensor(1)),
        ("a float tensor of no dimension", lambda: torch.tensor(0.5)),
        ("a bool tensor of no dimension", lambda: torch.tensor(True)),
        ("an empty tensor", lambda: torch.empty(0, dtype=torch.int64)),
        ("an expanded tensor", lambda: torch.zeros(1, dtype=torch.int64).expand(2, 5)),
        ("a transposed tensor", lambda: torch.arange(6).reshape(3, 2).T),
        ("a parameter", lambda: torch.nn.Parameter(torch.ones(3))),
        ("an element type", lambda: torch.complex64),
        ("a device", lambda: torch.device("cpu")),
        ("a storage", lambda: torch.ones(3).untyped_storage()),
        ("a tensor whose storage is gone", _emptied),
    ]


def _emptied() -> Any:
    import torch

    tensor = torch.arange(6)
    tensor.untyped_storage().resize_(0)
    return tensor


_IN_CONTAINERS = {"None", "-1", "1.5", "nan", "'x'", "True", repr(2**63), repr(2**200), "''", "'a\\x00b'", "'\\udcff'"}


def within(valid: Any) -> Iterator[Value]:
    """Containers as ``valid`` is one, in which one part is hostile."""
    few = [v for v in SCALARS if v[0] in _IN_CONTAINERS or v[0].startswith("an object")] + ARRAYS[:2]
    if isinstance(valid, list | tuple):
        for name, make in few:
            yield f"[…, {name}]", lambda make=make: [*valid, make()]
    elif isinstance(valid, dict) and valid:
        for name, make in ALL:
            yield f"{{…: {name}}}", lambda make=make: dict.fromkeys(valid, make())
        for name, make in few:
            yield f"{{{name}: …}}", lambda make=make: {make(): next(iter(valid.values()))}
