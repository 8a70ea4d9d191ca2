"""The exceptions of goagnes, and the one place that makes them of native errors.

The native library raises ``RuntimeError("CLASS: message")``. Each class of the
library has one exception here; all derive from :class:`Error` and from the built-in
exception that a caller would expect, so that ``except ValueError`` works too.
"""

from __future__ import annotations

__all__ = [
    "BudgetError",
    "CancelledError",
    "ClosedError",
    "DirectIOWarning",
    "DiskError",
    "Error",
    "InputError",
    "InternalError",
    "StoreError",
    "UnsupportedError",
    "UsageError",
]


class Error(Exception):
    """Base of every error that goagnes raises itself."""


class UsageError(Error, ValueError):
    """An argument that makes no sense, whatever the data."""


class UnsupportedError(Error, ValueError):
    """An argument or a format that goagnes knows of but does not serve."""


class InputError(Error, ValueError):
    """Input data that is refused: the message names file and line, or index."""


class StoreError(Error, OSError):
    """A store that is missing, damaged, or of an unknown version: the message names the file and block."""


class BudgetError(Error, ValueError):
    """A ``memory`` or ``scratch_limit`` that is too small: the message has the number needed.

    It is a ``ValueError`` and no ``MemoryError``: the machine has not run out of
    memory, the argument is refused.
    """


class DiskError(Error, OSError):
    """Reading or writing failed: the message names the file and the system's reason."""


class CancelledError(Error, RuntimeError):
    """Work that was cancelled by something other than Ctrl-C (which stays ``KeyboardInterrupt``)."""


class ClosedError(Error, ValueError):
    """Use of a store, loader or iterator after it was closed."""


class InternalError(Error, RuntimeError):
    """A defect of goagnes. Please report it with the text."""


class DirectIOWarning(RuntimeWarning):
    """A file system refuses direct I/O: a store is read through the page cache, which ``memory`` does not bound."""


_CLASSES: dict[str, type[Error]] = {
    "usage": UsageError,
    "unsupported": UnsupportedError,
    "input": InputError,
    "store": StoreError,
    "budget": BudgetError,
    "io": DiskError,
    "interrupted": CancelledError,
    "closed": ClosedError,
    "internal": InternalError,
}


def from_text(text: str) -> Error | None:
    """The exception for a native error text, or None where it names no class."""
    name, colon, message = text.partition(": ")
    kind = _CLASSES.get(name)
    return kind(message) if colon and kind is not None else None


def from_native(error: RuntimeError) -> Exception:
    """The exception for a native ``RuntimeError``; itself where it names no class (use after fork)."""
    return from_text(str(error)) or error
