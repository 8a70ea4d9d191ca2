"""Checking arguments: each error names the argument and its value."""

from __future__ import annotations

import operator

from goagnes._errors import UnsupportedError, UsageError


def only(name: str, value: object, served: object) -> None:
    """Refuses an argument that has another value than the one served."""
    same = value is served if served is None or isinstance(served, bool) else value == served
    if not same:
        text = repr(value)
        if len(text) > 80:
            text = f"a {type(value).__name__}"
        raise UnsupportedError(f"{name}={text} is not supported; only {served!r} is")


def count(name: str, value: object) -> int:
    """An integer from 1 to 2^31-1."""
    n = integer(name, value)
    if not 1 <= n < 1 << 31:
        raise UsageError(f"{name}={value!r}; it must be 1 to 2147483647")
    return n


def integer(name: str, value: object) -> int:
    """An integer from 0 to 2^63-1."""
    try:
        n = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise UsageError(f"{name}={value!r} is not an integer") from None
    if isinstance(value, bool) or not 0 <= n < 1 << 63:
        raise UsageError(f"{name}={value!r}; it must be an integer from 0")
    return n


def flag(name: str, value: object) -> bool:
    """True or False, and nothing that merely counts as such."""
    if value is True or value is False:
        return value
    raise UsageError(f"{name}={value!r}; it must be True or False")


def word(name: str, value: object) -> str:
    """A name."""
    if not isinstance(value, str):
        raise UsageError(f"{name}={value!r}; it must be a text")
    return value
