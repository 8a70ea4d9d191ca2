"""Making stores: from arrays and files, from data sets, and synthetic ones."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from goagnes import _graphs, _tasks
from goagnes._arguments import flag, integer, number, only, shown, word
from goagnes._arrays import ArrayLike, describe, dtype_name, path_text
from goagnes._errors import UnsupportedError, UsageError
from goagnes._progress import ProgressArgument
from goagnes._sizes import parse_size
from goagnes._store import Store, memory_request, open_store, stripes_request

PathLike = str | os.PathLike[str]


def build(
    path: PathLike,
    edge_index: ArrayLike,
    x: ArrayLike | None = None,
    y: ArrayLike | None = None,
    num_nodes: int | None = None,
    edge_attr: ArrayLike | None = None,
    node_attrs: Mapping[str, ArrayLike] | None = None,
    edge_attrs: Mapping[str, ArrayLike] | None = None,
    splits: Mapping[str, ArrayLike] | None = None,
    order: str = "auto",
    block_size: int | str = "1MiB",
    feature_dtype: Any = None,
    compression: str | None = None,
    memory: int | str = "2GiB",
    scratch: PathLike | None = None,
    stripes: Sequence[PathLike] | None = None,
    overwrite: bool = False,
    progress: ProgressArgument = None,
    ids: str = "auto",
    undirected: bool = False,
    self_loops: str = "keep",
    duplicates: str = "keep",
    split: str | None = None,
    split_seed: int = 0,
    *,
    num_threads: int | None = None,
    scratch_limit: int | str | None = None,
    io: str = "auto",
) -> Store:
    """Builds a store at ``path`` from arrays or files, and opens it.

    ``edge_index``   (2, E) or (E, 2) integers, sources and targets; or a file of edges: text, csv,
                     Matrix Market, Parquet, or what numpy and scipy save
    ``x``, ``y``     features and labels, one row a node; labels below 0 or NaN: unlabelled
    ``num_nodes``    default: rows of x, else what a matrix states, else the largest id + 1
    ``splits``       node ids or a bool mask by name
    ``order``        node order inside the store; no influence on results. "original"; "degree":
                     by out-degree; "bfs": breadth-first; "visit": by the probability of being
                     reached from the split "train"; "auto": visit where there is that split,
                     else degree. Where ``memory`` has no room for the tables of an order, of
                     8 bytes a node (bfs, visit: 12), the report's notes say which was taken
    ``block_size``   bytes of a graph or feature block
    ``split``        "per-class:20,30": draw splits by y, 20 nodes of each class for "train", 30
                     for "val", all other labelled nodes for "test", with ``split_seed``;
                     they replace a source's own
    ``compression``  of graph blocks: None or "none", "zstd" (level 3) or "zstd:LEVEL", 1 to 9;
                     adjacency takes less of the disk, and each block read is unpacked
    ``ids``          "dense": ids are 0 to N-1; "rank": sparse ids are ranked ascending;
                     "auto": "rank" for a text edge list without num_nodes, arrays and splits
    ``undirected``   add (v, u) for every (u, v) but self-loops; edge i's reverse is edge E + i
    ``self_loops``   "keep", "drop", or "add": one for every node that has none; node v's is
                     edge E + v (2E + v with undirected)
    ``duplicates``   "keep", or "drop": of the edges with one source and one target, the first
                     is kept. PyG's to_undirected is undirected with duplicates="drop"
    ``memory``       budget of the build and of the store opened after it
    ``stripes``      directories, each on an SSD of its own, over which the store is spread
    ``io``           the way to the device, of the build and of the store opened after it: see
                     :func:`open`
    ``overwrite``    replace a store that is there
    ``progress``     None: a bar on a terminal; True, False, or a function of (stage, done, total)

    Arrays are numpy arrays, memory maps, torch CPU tensors, or paths of files; none is
    copied as a whole. ``edge_index`` may also be a graph of another library, copied once:
    a torch_geometric Data (its x, y and masks are taken where not given), a networkx graph
    (node i is the i-th of G.nodes; the edges of an undirected one, then their reverses), a
    square scipy sparse matrix or sparse COO tensor (entry (i, j) is the edge i to j). The
    store is written beside ``path`` and renamed into place: a
    build that fails or is interrupted (Ctrl-C) leaves nothing that can be opened.

    Edges are reversed, dropped and added in the order: ``undirected``, ``self_loops="drop"``,
    ``duplicates``, ``self_loops="add"``. ``e_id`` stays the position in the imported list,
    the reverses and the added self-loops behind it, so that dropped edges leave gaps;
    ``num_edges`` counts the edges that are there. The store's ``build_report`` says how
    many were dropped and added.

    Other values than the defaults of ``edge_attr``, ``node_attrs`` and ``edge_attrs``
    are not supported yet.

    Features that are NaN or infinite are kept, and a RuntimeWarning tells how many there are.

    Raises InputError naming array and index for data that is refused, BudgetError for a
    memory that is too small, UnsupportedError for what is not served.
    """
    _refuse(edge_attr=(edge_attr, None), node_attrs=(node_attrs, None), edge_attrs=(edge_attrs, None))
    request = _settings(path, num_nodes, order, block_size, feature_dtype, compression, overwrite, ids)
    request.update(_edits(undirected, self_loops, duplicates))
    request.update(_drawn(split, split_seed))
    request.update(memory_request(memory, num_threads, scratch, scratch_limit, io))
    request.update(stripes_request(stripes))
    graph = _graphs.unpack(edge_index) or _graphs.Graph(edge_index)
    report = _build(request, graph, x, y, num_nodes, splits, progress)
    _warn_features(report)
    store = open_store(path, memory, num_threads, scratch, scratch_limit, None, io)
    store.build_report = report
    return store


def _build(
    request: dict[str, Any],
    graph: _graphs.Graph,
    x: ArrayLike | None,
    y: ArrayLike | None,
    num_nodes: int | None,
    splits: Mapping[str, ArrayLike] | None,
    progress: ProgressArgument,
) -> dict[str, Any]:
    """Builds from a graph; x, y, num_nodes and splits that are given take the place of its own."""
    keep: list[object] = []
    request["edge_index"] = _edges(graph.edge_index, keep)
    for name, value in (("x", graph.x if x is None else x), ("y", graph.y if y is None else y)):
        if value is not None:
            request[name] = _described(name, value, keep)
    if splits is not None and not isinstance(splits, Mapping):
        raise UsageError(f"splits is a {type(splits).__name__}; it must map names to arrays")
    splits = {**graph.splits, **(splits or {})}
    if splits:
        request["splits"] = _named("splits", splits, keep)
    if num_nodes is None and graph.num_nodes is not None:
        request["num_nodes"] = graph.num_nodes
    report: dict[str, Any] = _tasks.run("build", request, progress=progress, keep=keep)
    report["notes"] = graph.notes + list(report.get("notes") or [])
    return report


def import_dataset(
    path: PathLike,
    source: PathLike,
    format: str = "auto",
    *,
    num_nodes: int | None = None,
    order: str = "auto",
    block_size: int | str = "1MiB",
    feature_dtype: Any = None,
    compression: str | None = None,
    memory: int | str = "2GiB",
    scratch: PathLike | None = None,
    stripes: Sequence[PathLike] | None = None,
    overwrite: bool = False,
    progress: ProgressArgument = None,
    ids: str = "auto",
    undirected: bool = False,
    self_loops: str = "keep",
    duplicates: str = "keep",
    split: str | None = None,
    split_seed: int = 0,
    split_index: int = 0,
    num_threads: int | None = None,
    scratch_limit: int | str | None = None,
    io: str = "auto",
) -> Store:
    """Builds a store at ``path`` from a data set in its published form, and opens it.

    ``source`` is a file or directory, ``format`` its format or "auto", which tells by
    content; docs/import.md says what each keeps and drops:

    ``snap``           lines of two ids, any comment lines, plain, gzip or zstd
    ``csv``            a table with two columns of ids, with or without a header
    ``parquet``        a Parquet file with two columns of ids, or a directory of such
    ``ve``             a pair of files NAME.v and NAME.e
    ``mtx``            a square Matrix Market file
    ``scipy``          a square matrix saved by scipy.sparse.save_npz
    ``npy``            edge_index.npy, or a directory with x.npy, y.npy, split_NAME.npy beside it
    ``npz``            an archive with edge_index, x, y and splits
    ``heterophilous``  Minesweeper and its kin as published; ``split_index`` (0 to 9, default
                       0) chooses the split
    ``planetoid``      Cora, Citeseer, Pubmed: ind.NAME.*
    ``ogb``            a folder of OGB's node property prediction: raw/*.csv.gz, split/
    ``ogb-binary``     the same with raw/data.npz: papers100M
    ``igb``            a folder of IGB: processed/paper, processed/paper__cites__paper
    ``pyg``            a processed .pt file of PyG, or a folder with one; never by "auto": it is
                       a pickle, torch loads it, and that runs the code in it

    The other arguments are those of :func:`build`. Raises InputError with file and line for data
    that is refused, UnsupportedError for a format that is not read.
    """
    request = _settings(path, num_nodes, order, block_size, feature_dtype, compression, overwrite, ids)
    request.update(_edits(undirected, self_loops, duplicates))
    request.update(_drawn(split, split_seed))
    request.update(memory_request(memory, num_threads, scratch, scratch_limit, io))
    request.update(stripes_request(stripes))
    format = word("format", format)
    if format == "pyg":
        graph = _graphs.load_pyg(path_text("source", source))
        report = _build(request, graph, None, None, num_nodes, None, progress)
    else:
        request["source"] = path_text("source", source)
        request["format"] = format
        request["split_index"] = integer("split_index", split_index)
        report = _tasks.run("import", request, progress=progress)
    _warn_features(report)
    store = open_store(path, memory, num_threads, scratch, scratch_limit, None, io)
    store.build_report = report
    return store


def generate(
    path: PathLike | None = None,
    kind: str = "community",
    *,
    num_nodes: int,
    avg_degree: float = 16,
    num_features: int = 64,
    num_classes: int = 16,
    feature_dtype: Any = "float32",
    seed: int = 0,
    memory: int | str = "2GiB",
    raw: PathLike | None = None,
    order: str = "auto",
    block_size: int | str = "1MiB",
    compression: str | None = None,
    scratch: PathLike | None = None,
    stripes: Sequence[PathLike] | None = None,
    overwrite: bool = False,
    progress: ProgressArgument = None,
    num_threads: int | None = None,
    scratch_limit: int | str | None = None,
    io: str = "auto",
) -> Store | None:
    """Generates a synthetic graph: a store at ``path``, opened, or arrays in ``raw``.

    ``kind`` is "community" (planted classes that features alone tell only in part) or
    "rmat" (Kronecker, skewed; ``num_nodes`` is rounded up to a power of two). Splits train, val and test
    hold 10 %, 5 % and 10 % of the nodes. Equal arguments give equal graphs.

    ``order``, ``block_size`` and ``compression`` shape the store as in :func:`build`.

    With ``raw`` a directory gets edge_index.npy, x.npy, y.npy, split_NAME.npy and
    num_nodes.npy, for :func:`build`; the result is then None, and what shapes a store, or
    ``overwrite``, is refused.
    """
    target, name = (path, "path") if raw is None else (raw, "raw")
    if target is None or (path is not None and raw is not None):
        raise UsageError("generate takes either path, for a store, or raw, for a directory of arrays")
    degree = number("avg_degree", avg_degree)
    if not 0 < degree < 2**31:
        raise UsageError(f"avg_degree={shown(avg_degree)}; it must be positive and below 2^31")
    request: dict[str, Any] = {
        "kind": word("kind", kind),
        "num_nodes": integer("num_nodes", num_nodes),
        "avg_degree": degree,
        "num_features": integer("num_features", num_features),
        "num_classes": integer("num_classes", num_classes),
        "feature_dtype": dtype_name("feature_dtype", feature_dtype),
        "seed": integer("seed", seed),
        "order": word("order", order),
        "block_size": parse_size("block_size", block_size),
        "overwrite": flag("overwrite", overwrite),
    }
    if compression is not None:
        request["compression"] = word("compression", compression)
    request.update(memory_request(memory, num_threads, scratch, scratch_limit, io))
    request.update(stripes_request(stripes))
    request[name] = path_text(name, target)
    _tasks.run("generate", request, progress=progress)
    if raw is not None:
        return None
    return open_store(target, memory, num_threads, scratch, scratch_limit, None, io)


def _warn_features(report: dict[str, Any]) -> None:
    """Says that there are features from which nothing can be learnt."""
    if report.get("features_nan") or report.get("features_infinite"):
        note = next(note for note in report["notes"] if note.startswith("x holds "))
        warnings.warn(note, RuntimeWarning, stacklevel=3)


def _settings(
    path: PathLike,
    num_nodes: int | None,
    order: str,
    block_size: int | str,
    feature_dtype: Any,
    compression: str | None,
    overwrite: bool,
    ids: str,
) -> dict[str, Any]:
    """The native settings that building and importing share."""
    request = {
        "path": path_text("path", path),
        "num_nodes": 0 if num_nodes is None else integer("num_nodes", num_nodes),
        "order": word("order", order),
        "block_size": parse_size("block_size", block_size),
        "feature_dtype": dtype_name("feature_dtype", feature_dtype),
        "compression": None if compression is None else word("compression", compression),
        "overwrite": flag("overwrite", overwrite),
        "ids": word("ids", ids),
    }
    return {name: value for name, value in request.items() if value is not None}


def _edits(undirected: bool, self_loops: str, duplicates: str) -> dict[str, Any]:
    """The native settings that change the edge list."""
    return {
        "undirected": flag("undirected", undirected),
        "self_loops": word("self_loops", self_loops),
        "duplicates": word("duplicates", duplicates),
    }


def _drawn(split: str | None, split_seed: int) -> dict[str, Any]:
    """The native settings of splits that are drawn."""
    seed = integer("split_seed", split_seed)
    return ({} if split is None else {"split": word("split", split)}) | ({"split_seed": seed} if seed else {})


def _refuse(**arguments: tuple[Any, Any]) -> None:
    """Refuses arguments, given as (value, the value served)."""
    for name, (value, served) in arguments.items():
        only(name, value, served)


def _described(name: str, value: ArrayLike, keep: list[object]) -> dict[str, Any]:
    description, memory = describe(name, value)
    keep.append(memory)
    return description


def _edges(value: ArrayLike, keep: list[object]) -> dict[str, Any]:
    """An edge index."""
    if isinstance(value, Mapping):
        raise UnsupportedError("edge_index is a mapping by edge type; stores have one edge type")
    return _described("edge_index", value, keep)


def _named(name: str, arrays: Mapping[str, ArrayLike], keep: list[object]) -> dict[str, Any]:
    if not isinstance(arrays, Mapping):
        raise UsageError(f"{name} is a {type(arrays).__name__}; it must map names to arrays")
    for key in arrays:
        if not isinstance(key, str) or not key:
            raise UsageError(f"{name} has the key {shown(key)}; names are text")
    return {key: _described(f"{name}[{key!r}]", value, keep) for key, value in arrays.items()}
