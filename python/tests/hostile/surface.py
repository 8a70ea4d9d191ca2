"""The public surface, found by introspection, with arguments that are valid for each part of it.

A function, method, property or class that is added to the package is found here by
itself. Its parameters take their values from VALID by name; a required one that VALID
does not know, or a class that no one here can make, stops the tests with what to add.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import goagnes as ga
from goagnes import _loader

#: Public names that are no classes of ours to call: exceptions take whatever Exception takes.
_EXCEPTIONS = (Exception, Warning)

#: Reached from public objects, though not named in the package.
_REACHED: tuple[type, ...] = (_loader.Epoch, _loader.Explanation)

#: Classes that their users do not make themselves ("Made by …"): their constructors may raise anything.
MADE_BY_US = {"Store", "NodeArray", "Batch", "Export", "ExportEpoch", "Epoch", "Explanation"}

#: Of Python's own machinery; the rest of the double-underscore methods is called.
_MACHINERY = {
    *("__init__", "__new__", "__getattribute__", "__init_subclass__", "__subclasshook__", "__class_getitem__"),
    *("__setattr__", "__delattr__", "__weakref__", "__dict__", "__slots__", "__doc__", "__module__", "__annotations__"),
    *("__abstractmethods__", "__parameters__", "__orig_bases__", "__hash__", "__static_attributes__"),
    *("__firstlineno__",),
}


@dataclass(frozen=True)
class Target:
    """One callable: a function, a constructor, or a method of an object that ``owner`` names."""

    name: str
    owner: str | None
    parameters: tuple[inspect.Parameter, ...]


def targets() -> list[Target]:
    """Everything public that can be called."""
    found: list[Target] = []
    for name in [n for n in ga.__all__ if n != "__version__"]:
        value = getattr(ga, name)
        if isinstance(value, type):
            if not issubclass(value, _EXCEPTIONS):
                found += _of_class(value)
        else:
            found.append(Target(name, None, _parameters(value)))
    for kind in _REACHED:
        found += _of_class(kind)
    return found


def constructor(name: str) -> Callable[..., Any]:
    """The function or class of a target without owner."""
    reached: dict[str, Callable[..., Any]] = {kind.__name__: kind for kind in _REACHED}
    return reached.get(name) or getattr(ga, name)  # type: ignore[no-any-return]


def _of_class(kind: type) -> list[Target]:
    found = []
    if "__init__" in vars(kind):
        found.append(Target(kind.__name__, None, _parameters(kind.__init__)[1:]))
    for name, value in vars(kind).items():
        public = not name.startswith("_") or (name.startswith("__") and name not in _MACHINERY)
        if public and inspect.isfunction(value):
            found.append(Target(f"{kind.__name__}.{name}", kind.__name__, _parameters(value)[1:]))
        elif public and isinstance(value, property):
            found.append(Target(f"{kind.__name__}.{name}", kind.__name__, ()))
    return found


def _parameters(function: Callable[..., Any]) -> tuple[inspect.Parameter, ...]:
    return tuple(inspect.signature(function).parameters.values())


class UnknownPartError(Exception):
    """A part of the surface that this file has to be told about."""


class World:
    """A small store, an export of it, and valid values for parameters, by name."""

    def __init__(self, folder: Path) -> None:
        rng = np.random.default_rng(0)
        self.folder = folder
        self._fresh = itertools.count()
        self.edge_index = rng.integers(0, 28, (2, 90))
        self.x = rng.standard_normal((30, 4), dtype=np.float32)
        self.y = rng.integers(0, 3, 30)
        self.splits = {"train": np.arange(12), "val": np.arange(12, 20), "test": np.arange(20, 30)}
        self.path = folder / "store"
        settings = {"memory": "48MiB", "block_size": 4096}
        ga.build(self.path, self.edge_index, self.x, self.y, splits=self.splits, **settings).close()
        np.save(folder / "edge_index.npy", self.edge_index)
        self.exported = folder / "export"
        with ga.open(self.path, "48MiB") as store:
            ga.export(store, self.exported, [2], "train", batch_size=6, seed=1, epochs=2)
        self._store: ga.Store | None = None

    def fresh(self) -> Path:
        """A path where nothing is."""
        return self.folder / f"new{next(self._fresh)}"

    def made(self) -> str:
        """A new empty folder."""
        folder = self.fresh()
        folder.mkdir()
        return str(folder)

    def store(self) -> ga.Store:
        """The open store, opened again where a call has closed it."""
        if self._store is None or self._store.closed:
            self._store = ga.open(self.path, "48MiB", 1)
        return self._store

    def loader(self) -> ga.NeighborLoader:
        return ga.NeighborLoader(self.store(), [2], "train", batch_size=6, output="numpy", seed=1)

    def instance(self, kind: str) -> Any:
        """An object of a public class."""
        makers: dict[str, Callable[[], Any]] = {
            "Store": self.store,
            "NodeArray": lambda: self.store().x,
            "NeighborLoader": self.loader,
            "Epoch": lambda: iter(self.loader()),
            "Explanation": lambda: self.loader().explain(),
            "Batch": lambda: next(iter(self.loader())),
            "Export": lambda: ga.read_export(self.exported, output="numpy"),
            "ExportEpoch": lambda: ga.read_export(self.exported, output="numpy").epoch(0),
        }
        if kind not in makers:
            raise UnknownPartError(f"say in {__file__} how a {kind} is made")
        return makers[kind]()

    def valid(self, target: Target) -> dict[str, Any]:
        """Valid arguments: what is required, and what makes the call small."""
        known: dict[str, Any] = {
            "store": self.store(),
            "edge_index": self.edge_index,
            "num_threads": 1,
            "source": self.folder / "edge_index.npy",
            "num_neighbors": [2],
            "batch_size": 6,
            "epochs": 1,
            "model": "sage",
            "hidden": 4,
            "out_dir": self.fresh(),
            "name": "x",
            "nodes": [1, 2],
            "v": 3,
            "ids": [0, 1],
            "epoch": 0,
            "number": 0,
            "key": 2,
            "at": 0,
            "value": 1,
            "kind": None,
            "error": None,
            "trace": None,
            "path": self.fresh(),
            "output": "numpy",
            "raw": (0, 1, 1, 0, [1], [0], {}),
            "arrays": {},
        }
        special: dict[str, dict[str, Any]] = {
            "Store.split": {"name": "train"},
            "Store.set_split": {"name": "own"},
            "open": {"path": self.path, "memory": "48MiB"},
            "verify": {"path": self.path},
            "read_export": {"out_dir": self.exported},
            "build": {
                "x": self.x,
                "y": self.y,
                "splits": self.splits,
                "stripes": [self.made()],
                "memory": "48MiB",
                "block_size": 4096,
                "overwrite": True,
                "ids": "auto",
            },
            "import_dataset": {
                "num_nodes": 30,
                "memory": "48MiB",
                "block_size": 4096,
                "ids": "auto",
                "overwrite": True,
            },
            "generate": {
                "kind": "community",
                "num_nodes": 32,
                "avg_degree": 2,
                "num_features": 4,
                "num_classes": 2,
                "raw": None,
                "memory": "48MiB",
                "block_size": 4096,
                "overwrite": True,
            },
            "train": {"layers": 1, "eval_neighbors": [2]},
            "export": {"input_nodes": "train", "overwrite": True},
            "NeighborLoader": {"input_nodes": "train", "memory": "8MiB"},
            "Store": {"path": "none", "handle": 0, "info": {}},
            "NodeArray": {"name": "x", "dtype": "float32", "row_shape": (4,)},
            "Export": {"path": "none", "index": {"epochs": []}, "output": "numpy", "convert": len, "check": False},
            "ExportEpoch": {"path": "none", "index": {}, "part": {}, "convert": len, "check": False},
            "Epoch": {"loader": self.loader, "number": 1},
        }
        own = special.get(target.name, {})
        arguments: dict[str, Any] = {}
        for parameter in target.parameters:
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                continue
            if parameter.name in own:
                arguments[parameter.name] = own[parameter.name]
            elif parameter.name in known:
                arguments[parameter.name] = known[parameter.name]
            elif parameter.default is parameter.empty:
                raise UnknownPartError(f"give {target.name}'s parameter {parameter.name} a valid value in {__file__}")
        return arguments

    def lose(self) -> None:
        """Lets go of the open store, of which a call may have closed the native half."""
        self.close()
        self._store = None

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
