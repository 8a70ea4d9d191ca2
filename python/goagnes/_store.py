"""Open stores."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from types import MappingProxyType, TracebackType
from typing import Any, NoReturn

import numpy as np

from goagnes import _html, _native, _nodes, _pyg, _tasks
from goagnes._arguments import count, shown, word
from goagnes._arrays import ArrayLike, path_text
from goagnes._errors import ClosedError, DirectIOWarning, InputError, UsageError
from goagnes._inputs import resolve_nodes
from goagnes._nodes import NodeArray
from goagnes._progress import ProgressArgument
from goagnes._sizes import parse_size


def check_threads(num_threads: int | None) -> int:
    """The native number of threads: 0 for None."""
    return 0 if num_threads is None else count("num_threads", num_threads)


def memory_request(
    memory: int | str,
    num_threads: int | None,
    scratch: str | os.PathLike[str] | None,
    scratch_limit: int | str | None,
    io: str,
) -> dict[str, Any]:
    """The settings that opening a store and building one share."""
    request: dict[str, Any] = {"memory": parse_size("memory", memory), "num_threads": check_threads(num_threads)}
    request["io"] = word("io", io)
    if scratch is not None:
        request["scratch"] = path_text("scratch", scratch)
    if scratch_limit is not None:
        request["scratch_limit"] = parse_size("scratch_limit", scratch_limit)
    return request


def stripes_request(stripes: Sequence[str | os.PathLike[str]] | None) -> dict[str, Any]:
    """The setting that names stripe directories."""
    if stripes is None:
        return {}
    if isinstance(stripes, str | bytes | os.PathLike) or not isinstance(stripes, Sequence):
        raise UsageError(f"stripes={shown(stripes)}; it must be a list of directories")
    for i, directory in enumerate(stripes):
        if not isinstance(directory, str | os.PathLike):
            raise UsageError(f"stripes[{i}]={shown(directory)}; it must be a directory")
    return {"stripes": [path_text(f"stripes[{i}]", directory) for i, directory in enumerate(stripes)]}


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
        self._through_cache: set[str] = set()  # folders that a DirectIOWarning named
        self._owner = _native.Owner("store", handle)

    @property
    def handle(self) -> int:
        """The native handle of the open store; ClosedError once it is closed."""
        if not self._owner.alive:
            raise ClosedError(f"the store {self._path} is closed")
        return self._handle

    @property
    def path(self) -> str:
        """The absolute path of the store."""
        return self._path

    @property
    def memory(self) -> int:
        """The memory budget, in bytes."""
        return int(self._info["memory"])

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
        """The splits by name, each with its number of nodes: those of the store, and those of :meth:`set_split`."""
        return MappingProxyType(dict(self._info.get("splits") or {}))

    @property
    def arrays(self) -> Mapping[str, NodeArray]:
        """The arrays of nodes by name, ``x`` and ``y`` among them, left on disk until they are indexed."""
        described = self._info.get("node_arrays") or {}
        return MappingProxyType(
            {
                name: NodeArray(self, name, array["dtype"], tuple(array["row_shape"] or ()))
                for name, array in described.items()
            }
        )

    @property
    def x(self) -> NodeArray | None:
        """The features, (num_nodes, …) in the store's element type; None without. ``x[ids]`` reads rows."""
        return self.arrays.get("x")

    @property
    def y(self) -> NodeArray | None:
        """The labels, (num_nodes,) of an integer type, negative for none; None without. ``y[ids]`` reads them."""
        return self.arrays.get("y")

    @property
    def train_mask(self) -> np.ndarray[Any, Any] | None:
        """(num_nodes,) bool: whether a node is in the split "train"; None where there is none. Read at each use."""
        return _nodes.split_mask(self, "train")

    @property
    def val_mask(self) -> np.ndarray[Any, Any] | None:
        """As :attr:`train_mask`, of the split "val"."""
        return _nodes.split_mask(self, "val")

    @property
    def test_mask(self) -> np.ndarray[Any, Any] | None:
        """As :attr:`train_mask`, of the split "test"."""
        return _nodes.split_mask(self, "test")

    def split(self, name: str) -> np.ndarray[Any, Any]:
        """The nodes of a split, in its order, int64. Raises InputError where there is no such split."""
        if not isinstance(name, str) or name not in self.splits:
            known = ", ".join(sorted(self.splits)) or "none"
            raise InputError(f"{shown(name)} names no split of the store; it has: {known}")
        return _nodes.split_nodes(self, name)

    def set_split(self, name: str, nodes: ArrayLike) -> None:
        """Gives the open store a split, or another one in its place.

        ``nodes`` are node ids in an order of your own, or a bool mask of length
        num_nodes (ascending ids). The split belongs to this open store: nothing is
        written to disk, and the next :func:`open` does not have it. Loaders made from now
        on (``input_nodes=name``) and :func:`train` see it; loaders made before keep what
        they had. It takes 8 bytes a node of it from the store's memory.

        Raises InputError for an id that is no node, by value and position. Warns of ids
        given twice (they are seeds twice) and of nodes that are in other splits too.
        """
        word("name", name)
        given, keep = resolve_nodes("nodes", nodes, self.num_nodes)
        report = _tasks.run("set_split", {"store": self.handle, "name": name, **given}, keep=keep)
        self._info["splits"] = {**self.splits, name: report["nodes"]}
        if report["repeated"]:
            warnings.warn(f"{report['repeated']:,} entries of split {name!r} repeat a node", stacklevel=2)
        for other, shared in sorted((report["overlaps"] or {}).items()):
            warnings.warn(f"{shared:,} nodes of split {name!r} are in split {other!r} too", stacklevel=2)

    def neighbors(self, v: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """The in-edges of node ``v``: the ids of their sources, and the edge ids.

        Both are int64, in import order: ``edge_index[:, edge_ids]`` are the imported
        edges, all with target ``v``. Raises UsageError for what is no node id, BudgetError
        where the result is larger than the store's memory.
        """
        return _nodes.neighbors(self, v)

    def original_ids(self, ids: ArrayLike) -> Any:
        """The ids that the imported data gave to nodes: int64, one for each of ``ids``, or one int for one.

        Where ids were dense already, those are the nodes' own. Raises UsageError for an id
        that is no node.
        """
        return _nodes.map_ids(self, "original_ids", ids)

    def dense_ids(self, ids: ArrayLike) -> Any:
        """The nodes that the imported data named by ``ids``; the inverse of :meth:`original_ids`.

        Raises UsageError (a ValueError) naming the first id that the data did not have,
        and its position.
        """
        return _nodes.map_ids(self, "dense_ids", ids)

    def to_pyg(self, *, limit: int | str | None = None, progress: ProgressArgument = None) -> Any:
        """The whole store as a ``torch_geometric.data.Data`` in memory.

        It has ``edge_index`` (2, num_edges) int64 in import order, so that edge i is
        imported edge i (where edges were dropped at import, ``e_id`` (num_edges,) tells
        which imported edge each is), every array of nodes (``x``, ``y``, …), ``num_nodes``, and
        ``train_mask``, ``val_mask`` and ``test_mask`` where there are these splits.

        ``limit`` is the most bytes that it may take (default: the store's memory): a larger
        one is refused with BudgetError and the number. Needs ``goagnes[pyg]``.
        """
        return _pyg.to_pyg(self, limit, progress)

    def info(self) -> dict[str, Any]:
        """Everything the store says about itself: counts, element types, order, block size, build id, bytes.

        ``source`` is the build's record: what was read, as which format, and under ``edits``
        how many edges were dropped and added, where that was asked for.
        """
        import json

        return dict(json.loads(_native.call("StoreInfo", self.handle)))

    def verify(self, *, progress: ProgressArgument = None) -> dict[str, Any]:
        """Reads every byte and checks every checksum.

        Returns the report, whose ``findings`` is empty for a sound store; damage is
        reported there, not raised.
        """
        return verify(self._path, stripes=self._info.get("stripes"), progress=progress)

    def close(self) -> None:
        """Closes the store and its loaders. Closing twice does nothing."""
        _native.close(self._owner, "CloseStore", self._handle)

    @property
    def closed(self) -> bool:
        """Whether the store is closed."""
        return not self._owner.alive

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

    def _repr_html_(self) -> str:
        info = self._info
        features = f"{self.num_features:,} {info.get('feature_dtype')}" if self.num_features else "none"
        splits = ", ".join(f"{name} {n:,}" for name, n in sorted(self.splits.items()))
        rows: list[tuple[str, object]] = [
            ("nodes", f"{self.num_nodes:,}"),
            ("edges", f"{self.num_edges:,}"),
            ("features", features),
            ("classes", f"{self.num_classes:,}" if self.num_classes else "none"),
            ("splits", splits or "none"),
            ("order", info.get("order", "")),
            ("bytes on disk", _html.size(int(info.get("bytes", 0)))),
            ("memory budget", _html.size(int(info.get("memory", 0)))),
        ]
        return _html.table(f"goagnes.Store {self._path}{' (closed)' if self.closed else ''}", rows)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a goagnes Store cannot be pickled; open it again with goagnes.open(store.path)")


def open(
    path: str | os.PathLike[str],
    memory: int | str = "2GiB",
    num_threads: int | None = None,
    *,
    scratch: str | os.PathLike[str] | None = None,
    scratch_limit: int | str | None = None,
    stripes: Sequence[str | os.PathLike[str]] | None = None,
    io: str = "auto",
) -> Store:
    """Opens the store at ``path``.

    ``memory`` bounds everything that the store, its loaders and trainers hold:
    bytes, or text such as "2GiB". ``num_threads`` is the number of worker threads;
    None: one per CPU. ``scratch`` is the directory for files that spill what does not
    fit (default: beside the store, or the temporary directory where nothing can be
    written there, which a warning says), ``scratch_limit`` the most bytes of those of
    all loaders together (default: half the free space). ``stripes`` are the stripe directories of a striped store where
    they lie elsewhere than it was built. ``io`` is the way to the device: "uring"
    (io_uring), "pread" (system calls from a pool of threads), "buffered" (likewise,
    through the page cache), or "auto": uring where the system allows it, else pread.
    Results do not depend on it.

    Where the file system refuses direct I/O, reads go through the page cache: a
    :class:`DirectIOWarning` says so, here or, of scratch and of loaders with an ``io`` of
    their own, when they have been read; ``loader.stats()["io"]["direct"]`` is False and
    ``["fallback_bytes"]`` counts them.

    Raises StoreError for a missing or damaged store, BudgetError for a memory that is
    too small, with the number needed, UnsupportedError for an ``io`` that is unknown
    or, "uring", not to be had.
    """
    return open_store(path, memory, num_threads, scratch, scratch_limit, stripes, io)


def open_store(
    path: str | os.PathLike[str],
    memory: int | str,
    num_threads: int | None,
    scratch: str | os.PathLike[str] | None,
    scratch_limit: int | str | None,
    stripes: Sequence[str | os.PathLike[str]] | None,
    io: str,
) -> Store:
    """As :func:`open`, for public functions that open a store: warnings point at their callers."""
    text = path_text("path", path)
    request = {"path": text, **memory_request(memory, num_threads, scratch, scratch_limit, io)}
    request.update(stripes_request(stripes))
    store: Store = _tasks.run(
        "open", request, adopt=lambda opened: Store(text, int(opened["store"]), dict(opened["info"]))
    )
    warn_page_cache(store, store._info.get("direct_refused"), stacklevel=4)
    moved = store._info.get("scratch_moved")
    if moved:
        warnings.warn(
            f"{moved}: what does not fit in memory goes to {', '.join(store._info['scratch'])}; "
            "scratch= names another directory",
            RuntimeWarning,
            stacklevel=3,
        )
    return store


def warn_page_cache(store: Store, refused: str | None, stacklevel: int) -> None:
    """Says that a file goes through the page cache though nobody asked for it: once a store and folder."""
    if not refused or os.path.dirname(refused) in store._through_cache:
        return
    store._through_cache.add(os.path.dirname(refused))
    warnings.warn(
        f"the file system of {os.path.dirname(refused)} refuses direct I/O: files of the store {store.path} there "
        "go through the page cache, which memory= does not bound",
        DirectIOWarning,
        stacklevel=stacklevel,
    )


def verify(
    path: str | os.PathLike[str],
    *,
    stripes: Sequence[str | os.PathLike[str]] | None = None,
    progress: ProgressArgument = None,
    io: str = "auto",
) -> dict[str, Any]:
    """Checks the store at ``path`` without opening it.

    See :meth:`Store.verify` and, for ``stripes`` and ``io``, :func:`open`.
    """
    request = {"path": path_text("path", path), "io": word("io", io), **stripes_request(stripes)}
    report = dict(_tasks.run("verify", request, progress=progress))
    report["findings"] = report.get("findings") or []
    return report
