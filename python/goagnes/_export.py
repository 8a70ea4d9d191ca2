"""Exports: prepared minibatches as a folder of .npy files, and reading them back."""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np

from goagnes import _arguments, _inputs, _outputs, _tasks
from goagnes._arguments import auto, count, fanouts, flag, index, integer, shown, word
from goagnes._arrays import path_text
from goagnes._errors import UsageError
from goagnes._progress import ProgressArgument
from goagnes._sizes import parse_size
from goagnes._store import Store, warn_page_cache


def export(
    store: Store,
    out_dir: str | os.PathLike[str],
    num_neighbors: Sequence[int],
    input_nodes: _inputs.InputNodes = None,
    *,
    batch_size: int = 1,
    shuffle: bool = False,
    drop_last: bool = False,
    seed: int | None = None,
    first_epoch: int = 0,
    epochs: int = 1,
    max_batches: int | None = None,
    hyperbatch_size: int | str = "auto",
    memory: int | str | None = None,
    io: str = "auto",
    mode: str = "agnes",
    edge_ids: bool = True,
    overwrite: bool = False,
    progress: ProgressArgument = None,
) -> dict[str, Any]:
    """Writes the minibatches that a :class:`NeighborLoader` of these arguments gives to ``out_dir``.

    ``out_dir`` is a new or empty folder; its parent must exist. ``epochs`` epochs are
    written from ``first_epoch`` on, of each the first ``max_batches`` minibatches (None:
    all). The other arguments are the loader's. Every array becomes one .npy file an
    epoch, which ``np.load(mmap_mode="r")`` opens; docs/export.md specifies the folder.

    A call that was cut off is gone on with by the same call, to the same bytes; with
    ``seed=None`` it takes the seed it began with, else one is drawn. A folder that holds
    an export of other settings is refused (UsageError names the difference), or
    replaced with ``overwrite=True``.

    Returns the report of ``goagnes export --json``: ``path``, ``index``, ``totals``,
    ``resumed`` (minibatches that were there already) and ``loader``.
    """
    if not isinstance(store, Store):
        raise TypeError(f"store is a {type(store).__name__}, not a goagnes.Store; use goagnes.open(path)")
    request: dict[str, Any] = {
        "store": store.handle,
        "out_dir": path_text("out_dir", out_dir),
        "num_neighbors": fanouts("num_neighbors", num_neighbors),
        "batch_size": count("batch_size", batch_size),
        "shuffle": flag("shuffle", shuffle),
        "drop_last": flag("drop_last", drop_last),
        "seed": None if seed is None else _arguments.seed(seed),
        "first_epoch": integer("first_epoch", first_epoch, 0, (1 << 32) - 1),
        "epochs": count("epochs", epochs),
        "max_batches": 0 if max_batches is None else count("max_batches", max_batches),
        "hyperbatch_size": auto("hyperbatch_size", hyperbatch_size),
        "memory": 0 if memory is None else parse_size("memory", memory),
        "io": word("io", io),
        "mode": _arguments.mode(mode),
        "edge_ids": flag("edge_ids", edge_ids),
        "overwrite": flag("overwrite", overwrite),
    }
    request["input_nodes"], keep = _inputs.resolve(input_nodes, store.num_nodes, store.splits)
    report = dict(_tasks.run("export", request, progress=progress, keep=keep))
    warn_page_cache(store, report["loader"]["io"].get("fallback_file"), stacklevel=3)
    return report


def read_export(
    out_dir: str | os.PathLike[str],
    *,
    output: str = "auto",
    verify: bool | None = None,
    progress: ProgressArgument = None,
) -> Export:
    """Opens the finished export in ``out_dir``: the loader's minibatches again, bit for bit, from mapped files.

    ``output`` is as a loader's. ``verify``: None checks the checksums of a minibatch when
    it is first read, True those of all minibatches now, False none. Index, headers and
    sizes are always checked. Nothing is copied: numpy arrays are read-only views of the
    files; torch tensors can be written to, and the file does not change.

    Raises StoreError, naming file and minibatch, for an export that is unfinished,
    damaged, or none.
    """
    path = path_text("out_dir", out_dir)
    if verify is not None:
        flag("verify", verify)
    name, convert = _outputs.resolve(output)
    index = dict(_tasks.run("open_export", {"path": path, "verify": verify is True}, progress=progress))
    return Export(path, index, name, convert, check=verify is None)


class Export(Sequence[Any]):
    """An open export: its minibatches, epoch after epoch. Made by :func:`read_export`.

    ``len()``, indexing and iteration are over all epochs; :meth:`epoch` is one of them.
    Minibatches keep the mapped files that they view.
    """

    def __init__(self, path: str, index: dict[str, Any], output: str, convert: _outputs.Convert, check: bool) -> None:
        self._path, self._index, self._output = path, index, output
        self._epochs = [ExportEpoch(path, index, part, output, convert, check) for part in index["epochs"]]

    @property
    def path(self) -> str:
        """The folder."""
        return self._path

    @property
    def info(self) -> dict[str, Any]:
        """The index: store, settings, arrays, epochs with their files, totals."""
        return dict(self._index)

    @property
    def seed(self) -> int:
        """The seed of all draws."""
        return int(self._index["settings"]["seed"])

    @property
    def output(self) -> str:
        """The form of the minibatches, with "auto" decided."""
        return self._output

    @property
    def epochs(self) -> list[int]:
        """The numbers of the epochs."""
        return [epoch.number for epoch in self._epochs]

    def epoch(self, number: int) -> ExportEpoch:
        """The minibatches of one epoch."""
        at = integer("number", number) - self._epochs[0].number
        if not 0 <= at < len(self._epochs):
            raise UsageError(f"epoch {shown(number)} is not in the export; it has {self.epochs}")
        return self._epochs[at]

    def __len__(self) -> int:
        return sum(map(len, self._epochs))

    @overload
    def __getitem__(self, at: int) -> Any: ...
    @overload
    def __getitem__(self, at: slice) -> list[Any]: ...
    def __getitem__(self, at: int | slice) -> Any:
        if isinstance(at, slice):
            return [self[i] for i in range(*at.indices(len(self)))]
        number = _place(at, len(self))
        return self._epochs[number // len(self._epochs[0])][number % len(self._epochs[0])]

    def __iter__(self) -> Iterator[Any]:
        for epoch in self._epochs:
            yield from epoch

    def __repr__(self) -> str:
        return (
            f"<goagnes.Export {self._path!r}: {len(self)} minibatches, epochs {self.epochs}, output={self._output!r}>"
        )


class ExportEpoch(Sequence[Any]):
    """The minibatches of one exported epoch."""

    def __init__(
        self,
        path: str,
        index: dict[str, Any],
        part: dict[str, Any],
        output: str,
        convert: _outputs.Convert,
        check: bool,
    ) -> None:
        self.number = int(part["epoch"])
        self._folder = Path(path, part["folder"])
        self._output, self._convert = output, convert
        self._lines, self._starts = b"", np.zeros(1, np.int64)
        files = {file["name"]: file for file in part["files"]}
        self._bytes = {array["name"]: int(files[f"{array['name']}.npy"]["bytes"]) for array in index["arrays"]}
        self._arrays = [(array, self._map(array, files[f"{array['name']}.npy"])) for array in index["arrays"]]
        if files["minibatches.jsonl"]["bytes"]:
            self._lines = (self._folder / "minibatches.jsonl").read_bytes()
            ends = np.flatnonzero(np.frombuffer(self._lines, np.uint8) == ord("\n")) + 1
            self._starts = np.concatenate([self._starts, ends])
        self._unchecked = np.full(int(part["minibatches"]), check)

    def _map(self, array: dict[str, Any], file: dict[str, Any]) -> np.ndarray[Any, Any]:
        """The whole file as an array of rows. For torch, which knows no read-only tensors, writes stay private."""
        # Without MAP_NORESERVE a private mapping larger than memory may be refused; Python before 3.13 lacks the name.
        flags = mmap.MAP_PRIVATE | getattr(mmap, "MAP_NORESERVE", 0x4000)
        with open(self._folder / file["name"], "rb") as f:
            if self._output == "numpy":
                mapped = mmap.mmap(f.fileno(), file["bytes"], access=mmap.ACCESS_READ)
            else:
                mapped = mmap.mmap(f.fileno(), file["bytes"], flags=flags, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        shape, dtype = (file["rows"], *array["row"]), np.dtype(array["stored"])
        start = file["bytes"] - int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        return np.ndarray(shape, dtype, mapped, start)

    def __len__(self) -> int:
        return len(self._unchecked)

    @overload
    def __getitem__(self, at: int) -> Any: ...
    @overload
    def __getitem__(self, at: slice) -> list[Any]: ...
    def __getitem__(self, at: int | slice) -> Any:
        if isinstance(at, slice):
            return [self[i] for i in range(*at.indices(len(self)))]
        number = _place(at, len(self))
        line = json.loads(self._lines[self._starts[number] : self._starts[number + 1]])
        if self._unchecked[number]:
            self._check(number, line)
            self._unchecked[number] = False
        arrays = {}
        for (array, rows), piece in zip(self._arrays, line["arrays"], strict=True):
            elements = int(np.prod(piece["shape"], dtype=np.int64))
            length = elements if array["flat"] else piece["shape"][0]
            part = rows[piece["offset"] : piece["offset"] + length].reshape(piece["shape"])
            arrays[array["name"]] = _Array(part, array["dtype"])
        nodes, edges = line["num_sampled_nodes"], line["num_sampled_edges"]
        return self._convert((number, nodes[0], sum(nodes), sum(edges), nodes, edges, arrays))

    def _check(self, number: int, line: dict[str, Any]) -> None:
        pieces = []
        for (array, rows), piece in zip(self._arrays, line["arrays"], strict=True):
            path = self._folder / f"{array['name']}.npy"
            row = int(np.prod(rows.shape[1:], dtype=np.int64)) * rows.itemsize
            start = self._bytes[array["name"]] - rows.nbytes
            size = int(np.prod(piece["shape"], dtype=np.int64)) * rows.itemsize
            offset = start + piece["offset"] * row
            pieces.append(
                {"path": str(path), "minibatch": number, "offset": offset, "bytes": size, "crc32c": piece["crc32c"]}
            )
        _tasks.run("check_export", {"pieces": pieces})

    def __repr__(self) -> str:
        return f"<goagnes.ExportEpoch {self.number} of {str(self._folder.parent)!r}: {len(self)} minibatches>"


class _Array:
    """One array of a minibatch, as the data plane's tensors are: for numpy by its interface, for torch by DLPack."""

    def __init__(self, array: np.ndarray[Any, Any], dtype: str) -> None:
        self._array, self._dtype = array, dtype

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return self._array

    def torch(self) -> Any:
        """The tensor that shares the memory; bfloat16 lies in the file as uint16."""
        import torch

        if not len(self._array):  # no address to share
            return torch.empty(self._array.shape, dtype=getattr(torch, self._dtype))
        tensor = torch.from_numpy(self._array)
        return tensor.view(torch.bfloat16) if self._dtype == "bfloat16" else tensor


def _place(at: int, length: int) -> int:
    number = index(at)
    if number is None:
        raise TypeError(f"minibatch {shown(at)}: an index is an integer or a slice")
    if not -length <= number < length:
        raise IndexError(f"minibatch {shown(at)} of {length}")
    return number % length
