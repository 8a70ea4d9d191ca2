"""Calls a public function, or a class and all its methods, with every hostile value in every parameter.

Run as ``python drive.py NAME [torch]``, with torch its tensors in place of all other
values. Prints one line of JSON for each call that ended otherwise than documented, and a
last line with counts. A crash or a hang ends the process: the line on standard error
before it says in which call.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import importlib.util
import inspect
import itertools
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from surface import MADE_BY_US, Target, World, constructor, targets
from values import ALL, CallerError, Value, tensors, within

import goagnes as ga
from goagnes import _loader, _native

Arguments = tuple[tuple[Any, ...], dict[str, Any]]

LONG_SECONDS = 3  # a call that takes longer is interrupted, as Ctrl-C does
HUNG_SECONDS = 60  # and has to end then
LARGEST_FILE = 256 << 20

#: Counts that are legitimate however large they are: the work just takes long, and ends by Ctrl-C.
MAY_BE_LONG = {("train", "epochs"), ("train", "patience"), ("export", "epochs"), ("generate", "num_nodes")}

#: Names for parameters that are **keywords: those that are known, and one that is not.
KEYWORDS = (*_loader._DATALOADER, "unheard_of")

#: Methods that always raise.
REFUSES = {"__reduce__", *([] if importlib.util.find_spec("torch") else ["to_pyg", "to"])}

#: What Python's protocols have methods raise.
_PROTOCOLS: dict[str, tuple[type[BaseException], ...]] = {
    "__getitem__": (IndexError, KeyError),
    "__next__": (StopIteration,),
    "__getattr__": (AttributeError,),
    "__array__": (ValueError,),  # copy=False, as numpy specifies
    "__setitem__": (AttributeError,),
}


def permitted(target: Target, error: BaseException, value: str) -> bool:
    """Whether the documentation has this call raise this."""
    if isinstance(error, ga.InternalError) or (isinstance(error, ga.Error) and str(error).startswith("request: ")):
        return False  # the library could not read what the package made of the arguments
    if isinstance(error, ga.Error | TypeError | CallerError):
        return True
    if isinstance(error, MemoryError):
        return "exabyte" in value  # numpy's own answer, before we are asked
    if type(error) is ValueError and value in ("a released memoryview", "a closed memory map"):
        return True  # the object's own
    if target.name in MADE_BY_US:
        return isinstance(error, Exception)
    if value == "an argument too many" and isinstance(error, AttributeError):
        return True  # a property has no setter
    return isinstance(error, _PROTOCOLS.get(target.name.rpartition(".")[2], ()))


def calls(world: World, target: Target, values: list[Value]) -> Iterator[tuple[str, str, Callable[[], Arguments]]]:
    """Parameter, name of the value, and a function that makes the arguments of the call."""

    def arguments(**changed: Any) -> Arguments:
        named = world.valid(target) | changed
        given: list[Any] = []
        for parameter in target.parameters:
            if parameter.kind is parameter.POSITIONAL_ONLY and parameter.name in named:
                given.append(named.pop(parameter.name))
        return tuple(given), named

    for parameter in target.parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            for name, make in values:
                yield f"*{parameter.name}", name, lambda make=make: ((make(),), world.valid(target))
            continue
        names = KEYWORDS if parameter.kind is parameter.VAR_KEYWORD else (parameter.name,)
        parts = within(world.valid(target).get(parameter.name)) if values is ALL else ()
        for changed, (name, make) in itertools.product(names, [*values, *parts]):
            yield changed, name, lambda changed=changed, make=make: arguments(**{changed: make()})
    yield "", "valid arguments", arguments
    if not target.parameters:
        yield "", "an argument too many", lambda: ((None,), {})


def call(world: World, target: Target, given: tuple[Any, ...], values: dict[str, Any]) -> None:
    """Makes the call, uses up some of what it returns, and closes it."""
    method = target.name.rpartition(".")[2]
    if target.owner is None:
        result = constructor(method)(*given, **values)
    else:
        owner = world.instance(target.owner)
        if isinstance(inspect.getattr_static(type(owner), method), property):
            if given:
                setattr(owner, method, given[0])
            result = getattr(owner, method)
        else:
            result = getattr(owner, method)(*given, **values)
    if isinstance(result, Iterator):
        for _ in zip(range(3), result, strict=False):
            pass
    if target.name in MADE_BY_US:
        return  # of wrong parts, what their users do not give it
    repr(result)
    close = getattr(result, "close", None)
    if close is not None and result is not world._store:
        close()


class Watch:
    """Interrupts a call that takes long, once, and kills one that does not end then."""

    def __init__(self) -> None:
        self.fired = 0.0
        signal.signal(signal.SIGALRM, self._interrupt)

    def _interrupt(self, *_: Any) -> None:
        self.fired = time.monotonic()
        raise KeyboardInterrupt

    @contextlib.contextmanager
    def over(self) -> Iterator[None]:
        self.fired = 0.0
        faulthandler.dump_traceback_later(HUNG_SECONDS, exit=True)
        signal.setitimer(signal.ITIMER_REAL, LONG_SECONDS)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            faulthandler.cancel_dump_traceback_later()


def drive(target: Target, world: World, values: list[Value], watch: Watch) -> tuple[int, int]:
    """Makes all calls of one target; returns how many, and how many of them raised."""
    made = raised = 0
    for parameter, value, make in calls(world, target, values):
        text = f"{target.name}({parameter}={value})"
        print(text.encode("ascii", "replace").decode(), file=sys.stderr, flush=True)
        try:
            given, named = make()
        except (TypeError, CallerError):
            continue  # no such dict: its key cannot be hashed
        made += 1
        try:
            with watch.over():
                call(world, target, given, named)
        except KeyboardInterrupt:
            if (target.name, parameter) not in MAY_BE_LONG:
                complain(text, f"took longer than {LONG_SECONDS} s")
        except BaseException as error:
            raised += 1
            refuses = target.name in MADE_BY_US or target.name.rpartition(".")[2] in REFUSES
            if value == "valid arguments" and not refuses:
                complain(text, f"{error!r}: the arguments that surface.py gives are not valid")
            elif not permitted(target, error, value):
                complain(text, "".join(traceback.format_exception(error, limit=-6)))
        del given, named
        if target.name == "Store":
            world.lose()  # a Store made of a handle closes it
        for path in world.folder.glob("new*"):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    return made, raised


def complain(call: str, ended: str) -> None:
    print(json.dumps({"call": call, "ended": ended}), flush=True)


def group(name: str, folder: Path, values: list[Value]) -> dict[str, int]:
    """All targets of a function or class, and what they leave behind."""
    world = World(folder)
    here = folder / "here"  # where texts such as "x" are paths
    here.mkdir()
    os.chdir(here)
    known = {path.name for path in folder.iterdir()}
    world.store()
    gc.collect()
    before = _native.open_handles()
    watch = Watch()
    counts = [drive(t, world, values, watch) for t in targets() if t.name.partition(".")[0] == name]
    for path in here.iterdir():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    left = {path.name for path in folder.iterdir()} - known
    if left:
        complain(name, f"left behind: {sorted(left)}")
    world.store()
    gc.collect()
    if _native.open_handles() != before:
        complain(name, f"{_native.open_handles()} stores, loaders and tasks are open; {before} were")
    for batch in world.loader():
        assert batch.num_nodes > 0
    world.close()
    return {"targets": len(counts), "calls": sum(n for n, _ in counts), "raised": sum(n for _, n in counts)}


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_FILE, LARGEST_FILE))
    warnings.simplefilter("ignore")
    faulthandler.enable()
    torch = sys.argv[2:] == ["torch"]
    if torch and importlib.util.find_spec("torch_geometric"):
        importlib.import_module("torch_geometric")  # which can take longer than a call may
    with tempfile.TemporaryDirectory(prefix="hostile") as temporary:
        counts = group(sys.argv[1], Path(temporary), tensors() if torch else ALL)
    print(json.dumps(counts))
