"""Open stores."""

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping
from types import MappingProxyType, TracebackType
from typing import Any, NoReturn

from goagnes import _native, _tasks
from goagnes._arrays import path_text
from goagnes._errors import ClosedError, UsageError
from goagnes._progress import ProgressArgument
from goagnes._sizes import parse_size


def check_threads(num_threads: int | None) -> int:
    """The native number of threads: 0 for None."""
    if num_threads is None:
        return 0
    if isinstance(num_threads, bool) or not isinstance(num_threads, int) or num_threads < 1:
        raise UsageError(f"num_threads={num_threads!r}; it must be None or an integer from 1")
    return num_threads


def memory_request(
    memory: int | str, num_threads: int | None, scratch: str | os.PathLike[str] | None, scratch_limit: int | str | None
) -> dict[str, Any]:
    """The settings that opening a store and building one share."""
    request: dict[str, Any] = {"memory": parse_size("memory", memory), "num_threads": check_threads(num_threads)}
    if scratch is not None:
        request["scratch"] = path_text("scratch", scratch)
    if scratch_limit is not None:
        request["scratch_limit"] = parse_size("scratch_limit", scratch_limit)
    return request


class Store:
    """A graph on disk, open for reading under one memory budget. Made by :func:`open` and :func:`build`.

    Closing it closes its loaders; minibatches already delivered stay valid. It is a
    context manager, and closes itself when it is collected.
    """

    #: What :func:`build` or :func:`import_dataset` reported where it made this object: counts,
    #: times, and in ``notes`` all that was dropped, added or changed. None after :func:`open`.
    build_report: dict[str, Any] | None = None

    def __init__(self, path: str, handle: int, info: dict[str, Any]) -> None:
        self._path = path
        self._handle = handle
        self._info = info
        self._finalizer = weakref.finalize(self, _native.close_quietly, "CloseStore", handle)

    @property
    def handle(self) -> int:
        """The native handle of the open store; ClosedError once it is closed."""
        if not self._finalizer.alive:
            raise ClosedError(f"the store {self._path} is closed")
        return self._handle

    @property
    def path(self) -> str:
        """The absolute path of the store."""
        return self._path

    @property
    def num_nodes(self) -> int:
        """The number of nodes, isolated ones included."""
        return int(self._info["num_nodes"])

    @property
    def num_edges(self) -> int:
        """The number of directed edges."""
        return int(self._info["num_edges"])

    @property
    def num_features(self) -> int:
        """The features of a node; 0 without ``x``."""
        return int(self._info.get("num_features") or 0)

    @property
    def num_classes(self) -> int:
        """The number of classes of ``y``; 0 without labels."""
        return int(self._info.get("num_classes") or 0)

    @property
    def splits(self) -> Mapping[str, int]:
        """The splits by name, each with its number of nodes."""
        return MappingProxyType(dict(self._info.get("splits") or {}))

    def info(self) -> dict[str, Any]:
        """Everything the store says about itself: counts, element types, order, block size, build id, bytes."""
        import json

        return dict(json.loads(_native.call("StoreInfo", self.handle)))

    def verify(self, *, progress: ProgressArgument = None) -> dict[str, Any]:
        """Reads every byte and checks every checksum.

        Returns the report, whose ``findings`` is empty for a sound store; damage is
        reported there, not raised.
        """
        return verify(self._path, progress=progress)

    def close(self) -> None:
        """Closes the store and its loaders. Closing twice does nothing."""
        if self._finalizer.detach() is not None and not _native.forked():
            _native.call("CloseStore", self._handle)

    @property
    def closed(self) -> bool:
        """Whether the store is closed."""
        return not self._finalizer.alive

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = " (closed)" if self.closed else ""
        return (
            f"<goagnes.Store {self._path!r}: {self.num_nodes:,} nodes, {self.num_edges:,} edges, "
            f"{self.num_features} features, {self.num_classes} classes{state}>"
        )

    def __reduce__(self) -> NoReturn:
        raise TypeError("a goagnes Store cannot be pickled; open it again with goagnes.open(store.path)")


def open(
    path: str | os.PathLike[str],
    memory: int | str = "2GiB",
    num_threads: int | None = None,
    *,
    scratch: str | os.PathLike[str] | None = None,
    scratch_limit: int | str | None = None,
) -> Store:
    """Opens the store at ``path``.

    ``memory`` bounds everything that the store, its loaders and trainers hold:
    bytes, or text such as "2GiB". ``num_threads`` is the number of worker threads;
    None: one per CPU. ``scratch`` is the directory for files that spill what does not
    fit (default: beside the store), ``scratch_limit`` their most bytes (default: half
    the free space).

    Raises StoreError for a missing or damaged store, BudgetError for a memory that is
    too small, with the number needed.
    """
    text = path_text("path", path)
    request = {"path": text, **memory_request(memory, num_threads, scratch, scratch_limit)}
    opened = _tasks.run("open", request)
    return Store(text, opened["store"], opened["info"])


def verify(path: str | os.PathLike[str], *, progress: ProgressArgument = None) -> dict[str, Any]:
    """Checks the store at ``path`` without opening it; see :meth:`Store.verify`."""
    report = dict(_tasks.run("verify", {"path": path_text("path", path)}, progress=progress))
    report["findings"] = report.get("findings") or []
    return report
