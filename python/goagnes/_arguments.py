"""Checking arguments: each error names the argument and its value.

What an argument's ``__index__`` or ``__iter__`` raises reaches the caller as it is; what
its ``__repr__`` raises does not take the place of the error that shows it.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from goagnes._errors import UnsupportedError, UsageError

MODES = ("agnes", "agnes-no", "agnes-paper")

_MAX_HOPS = 64
_SHOWN = 80  # characters of a value in an error


def shown(value: object) -> str:
    """A value for an error's text: its repr where there is one, and it is short."""
    try:
        text = repr(value)
    except Exception:  # an integer of too many digits, a tensor without storage, an object of the caller's
        text = ""
    return text if 0 < len(text) <= _SHOWN else f"a {type(value).__name__}"


def only(name: str, value: object, served: object) -> None:
    """Refuses an argument that has another value than the one served."""
    same = isinstance(value, str) and value == served if isinstance(served, str) else value is served
    if not same:
        raise UnsupportedError(f"{name}={shown(value)} is not supported; only {served!r} is")


def index(value: object) -> int | None:
    """What value is as an index: an integer of Python, numpy or torch, arrays without dimensions among them.

    None for everything else, which True and False are too.
    """
    if isinstance(value, bool | np.bool_) or getattr(value, "ndim", 0) != 0:
        return None
    if isinstance(value, np.ndarray):
        value = value[()]
        if isinstance(value, bool | np.bool_):
            return None
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return None


def integer(name: str, value: object, low: int = 0, high: int = (1 << 63) - 1) -> int:
    """An integer from ``low`` to ``high``."""
    n = index(value)
    if n is None:
        raise UsageError(f"{name}={shown(value)} is not an integer")
    if not low <= n <= high:
        top = f" to {high}" if high < (1 << 63) - 1 else ""
        raise UsageError(f"{name}={shown(value)}; it must be an integer from {low}{top}")
    return n


def count(name: str, value: object) -> int:
    """An integer from 1 to 2^31-1."""
    return integer(name, value, 1, (1 << 31) - 1)


def seed(value: object) -> int:
    """A seed: 0 to 2^64-1."""
    return integer("seed", value, 0, (1 << 64) - 1)


def number(name: str, value: object) -> float:
    """A finite number from 0."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise UsageError(f"{name}={shown(value)} is not a number")
    if not 0 <= value < float("inf"):  # NaN is not either
        raise UsageError(f"{name}={shown(value)}; it must be a finite number and not be negative")
    try:
        return float(value)
    except OverflowError:
        raise UsageError(f"{name}={shown(value)} is out of range") from None


def fanouts(name: str, value: Any) -> list[int]:
    """Neighbours for each hop: -1 for all, or a count."""
    if isinstance(value, dict):
        raise UnsupportedError(f"{name} is a dict by edge type; stores have one edge type")
    if isinstance(value, str | bytes | bytearray) or not hasattr(value, "__iter__"):
        raise UsageError(f"{name}={shown(value)}; it must be a list of integers, one a hop")
    try:
        given = iter(value)
    except (TypeError, RuntimeError) as error:  # an array without dimensions, a tensor without storage
        raise UsageError(f"{name}={shown(value)}; it must be a list of integers, one a hop") from error
    hops: list[int] = []
    for hop, k in enumerate(given):
        if hop >= _MAX_HOPS:  # of an endless iterator too
            raise UsageError(f"{name} has more than {_MAX_HOPS} hops")
        n = index(k)
        if n is None:
            raise UsageError(f"{name}[{hop}] is {shown(k)}, not an integer")
        if n < -1 or n >= 1 << 31:
            raise UsageError(f"{name}[{hop}] is {shown(k)}; it must be -1 (all), 0 (none) or a positive count")
        hops.append(n)
    return hops


def flag(name: str, value: object) -> bool:
    """True or False, and nothing that merely counts as such."""
    if value is True or value is False:
        return value
    raise UsageError(f"{name}={shown(value)}; it must be True or False")


def word(name: str, value: object) -> str:
    """A name."""
    if not isinstance(value, str):
        raise UsageError(f"{name}={shown(value)}; it must be a text")
    return str(value)


def mode(value: object) -> str:
    """The name of a way to prepare minibatches."""
    name = word("mode", value)
    if name not in MODES:
        raise UnsupportedError(f"mode={shown(name)} is not supported; use {' or '.join(map(repr, MODES))}")
    return name


def auto(name: str, value: object) -> int:
    """A count, or 0 for "auto"."""
    return 0 if isinstance(value, str) and value == "auto" else count(name, value)
