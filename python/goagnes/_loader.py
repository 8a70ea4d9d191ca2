"""NeighborLoader: minibatches of sampled neighbourhoods, prepared from disk."""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, NoReturn

from goagnes import _arguments, _html, _inputs, _native, _outputs, _store, _tasks
from goagnes._arguments import auto, count, fanouts, flag, integer, only, shown, word
from goagnes._errors import ClosedError, UnsupportedError
from goagnes._sizes import parse_size
from goagnes._store import Store

# Options of torch's DataLoader, with the values that mean what this loader does anyway.
_DATALOADER: dict[str, tuple[Any, ...]] = {
    "num_workers": (0,),
    "pin_memory": (False,),
    "persistent_workers": (False,),
    "prefetch_factor": (None,),
    "filter_per_worker": (None, False),
    "directed": (True,),
    "is_sorted": (False, True),
}


class NeighborLoader:
    """Iterates over minibatches of sampled neighbourhoods, with the meaning of PyG's NeighborLoader.

    Sampling is over in-edges, uniform without replacement. Seeds come first in
    ``n_id``, in seed order, then nodes in first-seen order, hop by hop; edges in hop
    order; ``edge_index`` is local. See torch_geometric/loader/neighbor_loader.py.

    ``num_neighbors``   neighbours per node and hop, the first next to the seeds; -1: all, 0: none
    ``input_nodes``     a split's name, node ids, a bool mask, or None for all nodes
    ``transform``       called with each minibatch; what it returns is delivered
    ``batch_size``      seeds in a minibatch (default 1)
    ``shuffle``         permute the seeds in each epoch (default False)
    ``drop_last``       leave out the last minibatch if it is smaller (default False)
    ``seed``            0 to 2^64-1; None draws one from torch's generator where torch
                        is loaded, else from the system, and :attr:`seed` reports it
    ``hyperbatch_size`` minibatches prepared together; "auto" lets the planner choose
    ``output``          "numpy", "torch", "pyg", or "auto": the richest that is installed
    ``memory``          this loader's share of the store's budget; None: what it needs
    ``io``              "auto", "uring", "pread", or "buffered" for the page cache
    ``mode``            "agnes"; "agnes-no" for preparing each minibatch alone; "agnes-paper"
                        for Algorithm 1 as published: whole blocks through two LRU buffers
    ``graph_buffer``    bytes of the frames for graph blocks, part of ``memory``, at least one
                        block; None: divided out of it ("agnes-paper": an eighth of it)
    ``feature_buffer``  the same for feature blocks
    ``edge_ids``        deliver ``e_id`` (default True)

    A minibatch depends on seed, epoch and its number alone: not on memory, threads,
    hyperbatch size or node order. Each ``iter()`` is the next epoch, from 0;
    :meth:`set_epoch` sets it. One epoch runs at a time: a new iterator ends the one
    before. Minibatches outlive the loader.

    Raises UnsupportedError (a ValueError) for what PyG offers and goagnes does not.
    """

    def __init__(
        self,
        store: Store,
        num_neighbors: Sequence[int],
        input_nodes: _inputs.InputNodes = None,
        input_time: Any = None,
        replace: bool = False,
        subgraph_type: str = "directional",
        disjoint: bool = False,
        temporal_strategy: str = "uniform",
        time_attr: str | None = None,
        weight_attr: str | None = None,
        transform: Callable[[Any], Any] | None = None,
        *,
        batch_size: int = 1,
        shuffle: bool = False,
        drop_last: bool = False,
        seed: int | None = None,
        hyperbatch_size: int | str = "auto",
        output: str = "auto",
        memory: int | str | None = None,
        io: str = "auto",
        mode: str = "agnes",
        edge_ids: bool = True,
        rank: int | None = None,
        world_size: int | None = None,
        graph_buffer: int | str | None = None,
        feature_buffer: int | str | None = None,
        **dataloader: Any,
    ) -> None:
        if not isinstance(store, Store):
            raise TypeError(f"store is a {type(store).__name__}, not a goagnes.Store; use goagnes.open(path)")
        for name, value, served in (
            ("input_time", input_time, None),
            ("replace", replace, False),
            ("subgraph_type", getattr(subgraph_type, "value", subgraph_type), "directional"),
            ("disjoint", disjoint, False),
            ("temporal_strategy", temporal_strategy, "uniform"),
            ("time_attr", time_attr, None),
            ("weight_attr", weight_attr, None),
            ("rank", rank, None),
            ("world_size", world_size, None),
        ):
            only(name, value, served)
        if transform is not None and not callable(transform):
            raise TypeError(f"transform={shown(transform)} cannot be called")
        _check_dataloader(dataloader)
        request: dict[str, Any] = {
            "store": store.handle,
            "num_neighbors": fanouts("num_neighbors", num_neighbors),
            "batch_size": count("batch_size", batch_size),
            "shuffle": flag("shuffle", shuffle),
            "drop_last": flag("drop_last", drop_last),
            "seed": _seed(seed),
            "hyperbatch_size": auto("hyperbatch_size", hyperbatch_size),
            "memory": 0 if memory is None else parse_size("memory", memory),
            "graph_buffer": 0 if graph_buffer is None else parse_size("graph_buffer", graph_buffer),
            "feature_buffer": 0 if feature_buffer is None else parse_size("feature_buffer", feature_buffer),
            "io": word("io", io),
            "mode": _arguments.mode(mode),
            "edge_ids": flag("edge_ids", edge_ids),
        }
        request["input_nodes"], keep = _inputs.resolve(input_nodes, store.num_nodes, store.splits)
        self._output, self._convert = _outputs.resolve(output)
        self._transform = transform
        self._store = store

        def adopt(made: dict[str, Any]) -> None:
            self._handle: int = made["loader"]
            self._settings: dict[str, Any] = made["settings"]
            self._owner = _native.Owner("loader", self._handle, 0, keep)  # keep is read until it is closed

        _tasks.run("loader", request, keep=keep, adopt=adopt)

    def __len__(self) -> int:
        """The minibatches of an epoch."""
        return int(self._settings["length"])

    def __iter__(self) -> Epoch:
        """Begins the next epoch."""
        return Epoch(self, _native.call("BeginEpoch", self.handle))

    @property
    def handle(self) -> int:
        """The native handle of the loader; ClosedError once it is closed."""
        if not self._owner.alive:
            raise ClosedError("the loader is closed")
        return self._handle

    @property
    def store(self) -> Store:
        """The store whose graph is sampled."""
        return self._store

    @property
    def seed(self) -> int:
        """The seed in use, given or drawn."""
        return int(self._settings["seed"])

    @property
    def batch_size(self) -> int:
        """The seeds in a minibatch."""
        return int(self._settings["batch_size"])

    @property
    def num_neighbors(self) -> list[int]:
        """Neighbours per node and hop."""
        return list(self._settings["num_neighbors"])

    @property
    def output(self) -> str:
        """The form of the minibatches, with "auto" decided."""
        return self._output

    def set_epoch(self, epoch: int) -> None:
        """Makes the next ``iter()`` epoch number ``epoch``, 0 to 2^32-1."""
        _native.call("SetEpoch", self.handle, integer("epoch", epoch, 0, (1 << 32) - 1))

    def stats(self) -> dict[str, Any]:
        """What was read, written, hit and missed, and the seconds of each stage, since the loader was made."""
        return dict(json.loads(_native.call("DescribeLoader", self.handle, "stats")))

    def _warn_page_cache(self) -> None:
        """Warns, at the caller of the iterator, of files that turned out to refuse direct I/O."""
        if not self.closed:
            _store.warn_page_cache(self._store, self.stats()["io"].get("fallback_file"), stacklevel=4)

    def explain(self) -> Explanation:
        """The plan of an epoch: windows, buffers, cache, what is spilled, the budget's division, bytes moved.

        Prints as text and holds the same as a dict: ``memory`` lists name, bytes and
        when; ``phases`` what sampling, gathering and delivery read and write in an
        epoch, estimated and, once minibatches were prepared, measured. Nothing is read.
        """
        return Explanation(json.loads(_native.call("DescribeLoader", self.handle, "explain")))

    def close(self) -> None:
        """Stops preparing and gives the memory back. Closing twice does nothing."""
        _native.close(self._owner, "CloseLoader", self._handle)

    @property
    def closed(self) -> bool:
        """Whether the loader is closed."""
        return not self._owner.alive

    def __enter__(self) -> NeighborLoader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = ", closed" if self.closed else ""
        return (
            f"<goagnes.NeighborLoader {len(self)} minibatches, num_neighbors={self.num_neighbors}, "
            f"batch_size={self.batch_size}, seed={self.seed}, output={self._output!r}{state}>"
        )

    def _repr_html_(self) -> str:
        rows: list[tuple[str, object]] = [
            ("minibatches", f"{len(self):,} of {self.batch_size:,} seeds"),
            ("num_neighbors", self.num_neighbors),
            ("seed", self.seed),
            ("output", self.output),
            ("hyperbatch_size", self._settings.get("hyperbatch_size", "")),
            ("store", self._store.path),
        ]
        return _html.table(f"goagnes.NeighborLoader{' (closed)' if self.closed else ''}", rows)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a goagnes NeighborLoader cannot be pickled or sent to a worker process: it prepares minibatches on "
            "its own threads; use num_workers=0, or open the store in each process"
        )


class Explanation(dict[str, Any]):
    """A loader's plan as a dict; ``str()`` of it is the plan for people."""

    def __str__(self) -> str:
        return str(self["text"])


class Epoch(Iterator[Any]):
    """One pass over a loader. Dropping it, or ``close()``, stops the preparation of what is left."""

    def __init__(self, loader: NeighborLoader, number: int) -> None:
        self._loader = loader
        self._handle = loader.handle
        self._number = number
        self._delivered = 0
        self._owner = _native.Owner("epoch", self._handle, number)

    def __iter__(self) -> Epoch:
        return self

    def __next__(self) -> Any:
        if not self._owner.alive:
            raise StopIteration
        if self._delivered == 1:
            self._loader._warn_page_cache()  # before a minibatch is taken: a warning may be made an error
        raw = _native.next_batch(self._handle, self._number)
        if raw is None:
            self._owner.detach()
            self._loader._warn_page_cache()
            raise StopIteration
        self._delivered += 1
        batch = self._loader._convert(raw)
        transform = self._loader._transform
        return batch if transform is None else transform(batch)

    def close(self) -> None:
        """Ends the epoch early."""
        self._owner.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError("an iterator of a goagnes NeighborLoader cannot be pickled")


def _check_dataloader(options: dict[str, Any]) -> None:
    for name, value in options.items():
        if name not in _DATALOADER:
            raise TypeError(f"NeighborLoader got an unexpected argument {name!r}")
        if not any(type(value) is type(served) and value == served for served in _DATALOADER[name]):
            advice = "; minibatches are prepared on background threads already" if name == "num_workers" else ""
            raise UnsupportedError(f"{name}={shown(value)} is not supported; use {_DATALOADER[name][0]!r}{advice}")


def _seed(seed: int | None) -> int:
    if seed is None:
        torch = sys.modules.get("torch")
        if torch is not None and hasattr(torch, "randint"):
            return int(torch.randint(0, 2**63 - 1, (), dtype=torch.int64).item())
        return secrets.randbits(64)
    return _arguments.seed(seed)
