"""Describing arrays to the native library without copying them.

A description is a JSON object: ``{"path": …}`` for a file, or address, dtype,
shape, strides and byte order of memory that the caller keeps alive until the work
has ended.
"""

from __future__ import annotations

import mmap
import os
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from goagnes._arguments import shown
from goagnes._errors import InputError, UnsupportedError, UsageError

#: What the functions that take arrays accept.
ArrayLike = Any

_DTYPES = {np.dtype(f"{kind}{bits}") for kind in ("int", "uint") for bits in (8, 16, 32, 64)}
_DTYPES |= {np.dtype(name) for name in ("float16", "float32", "float64", "bool")}

_FLAT = (str, bytes, bytearray, memoryview)  # numpy does not go through their elements

_MAX_LISTED = 1 << 20  # elements of a Python list that are converted


def is_torch(value: object) -> bool:
    """Whether value is a torch tensor; does not import torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, getattr(torch, "Tensor", ()))


def to_numpy(name: str, value: ArrayLike) -> tuple[np.ndarray[Any, Any], str]:
    """An array over the memory of value, and the name of its element type.

    Torch tensors share their memory; a bfloat16 tensor comes as uint16 with the
    name "bfloat16". Lists become arrays, up to 2^20 elements.
    """
    if is_torch(value):
        import torch

        if value.device.type != "cpu":
            raise UnsupportedError(f"{name} is on device {value.device}; call .cpu() first")
        if value.is_nested:
            raise UnsupportedError(f"{name} is a nested tensor; only tensors of one shape are taken")
        if value.layout != torch.strided:
            raise UnsupportedError(f"{name} is a {value.layout} tensor; only strided ones are taken")
        if _beyond_storage(value):
            raise InputError(f"{name} is a tensor whose storage was freed or made smaller")
        value = value.detach()
        if value.dtype == torch.bfloat16:
            return value.view(torch.uint16).numpy(), "bfloat16"
        try:
            value = value.resolve_conj().resolve_neg().numpy()
        except TypeError:
            raise InputError(f"{name} has element type {value.dtype}, which goagnes does not store") from None
    elif not isinstance(value, np.ndarray):
        if isinstance(value, Sequence) and not isinstance(value, _FLAT) and _listed(value) > _MAX_LISTED:
            raise InputError(f"{name} is a {type(value).__name__} of more than {_MAX_LISTED} elements; pass an array")
        try:
            value = np.asarray(value)
        except ValueError:  # numpy's refusal of rows of unequal length
            kind = type(value).__name__
            raise InputError(f"{name} is a {kind} that is no array: its rows differ in length") from None
        if value.size == 0 and value.dtype == np.float64:
            value = value.astype(np.int64)  # numpy's type of an empty list
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise InputError(f"{name} has masked elements, which stores do not know; fill them first")
    if value.dtype.newbyteorder("=") not in _DTYPES:
        raise InputError(f"{name} has element type {value.dtype}, which goagnes does not store")
    return value, value.dtype.newbyteorder("=").name


def _beyond_storage(value: Any) -> bool:
    """Whether a strided tensor has elements outside of its memory; torch looks for that at views only."""
    if value.numel() == 0:
        return False
    last = value.storage_offset() + sum((n - 1) * stride for n, stride in zip(value.shape, value.stride(), strict=True))
    return bool((last + 1) * value.element_size() > value.untyped_storage().nbytes())


def _listed(value: Sequence[Any]) -> int:
    """The elements of a list, or of a list of lists or arrays: what would be copied. Counts no further than needed."""
    total = 0
    try:
        if len(value) > _MAX_LISTED:
            return len(value)
        for part in value:
            total += len(part) if isinstance(part, Sequence | np.ndarray) else 1
    except OverflowError:  # a range longer than memory can be
        return _MAX_LISTED + 1
    return total


def describe(name: str, value: ArrayLike) -> tuple[dict[str, Any], object]:
    """The description of an array or file, and what has to be kept alive for it."""
    if isinstance(value, str | os.PathLike):
        return {"path": path_text(name, value)}, None
    path = _whole_file(value)
    if path is not None:
        return {"path": path_text(name, path)}, value
    array, dtype = to_numpy(name, value)
    return {
        "address": array.__array_interface__["data"][0],
        "dtype": dtype,
        "shape": list(array.shape),
        "strides": list(array.strides),
        "big_endian": array.dtype.byteorder == ">" or (array.dtype.byteorder == "=" and sys.byteorder == "big"),
    }, array


def _whole_file(value: object) -> str | None:
    """The .npy file that a memory map shows whole and unchanged, which is better read than faulted in."""
    if not isinstance(value, np.memmap) or value.mode == "c" or not isinstance(value.base, mmap.mmap):
        return None
    name = value.filename
    if name is None or not str(name).endswith(".npy"):
        return None
    try:
        with open(name, "rb") as file:
            version = np.lib.format.read_magic(file)
            if version == (1, 0):
                shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
            else:
                shape, fortran, dtype = np.lib.format.read_array_header_2_0(file)
            start = file.tell()
    except (OSError, ValueError):
        return None
    ordered = value.flags.f_contiguous if fortran else value.flags.c_contiguous
    same = shape == value.shape and dtype == value.dtype and start == value.offset and ordered
    return str(name) if same else None


def path_text(name: str, value: str | os.PathLike[str]) -> str:
    """The absolute path as text; the native library takes UTF-8 only."""
    text = os.fspath(value)
    if not isinstance(text, str):
        raise UsageError(f"{name}={shown(value)} is not a text path")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise UsageError(f"{name}={shown(value)} is not valid UTF-8; rename the file") from None
    if "\0" in text or not text:
        raise UsageError(f"{name}={shown(value)} is not a path")
    return os.path.abspath(text)


def dtype_name(name: str, value: object) -> str | None:
    """numpy's name of an element type given as text, numpy or torch dtype; None stays None."""
    if value is None:
        return None
    torch_dtype = getattr(sys.modules.get("torch"), "dtype", ())
    if not isinstance(value, str | type | np.dtype) and not isinstance(value, torch_dtype):
        raise UsageError(f"{name}={shown(value)} is not an element type")
    text = str(value)
    if text.startswith("torch."):
        return text.removeprefix("torch.")
    if text == "bfloat16":
        return text
    try:
        dtype = np.dtype(value)
    except (TypeError, ValueError, SyntaxError):  # numpy reads texts as expressions
        raise UsageError(f"{name}={shown(value)} is not an element type") from None
    if dtype.newbyteorder("=") not in _DTYPES:
        raise UsageError(f"{name}={shown(value)} is not an element type that goagnes stores")
    return str(dtype.name)
