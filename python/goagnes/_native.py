"""The native library: two modules from one file, called through one gate.

``_goagnes`` (control plane: functions of integers and JSON) and ``_goagnes_data``
(data plane: minibatches) live in the same shared object and share one Go runtime.
The modules that gopy generates in Python are not used: they change the working
directory, the dlopen flags and ``gc.callbacks`` at import.
"""

from __future__ import annotations

import contextlib
import importlib.machinery
import importlib.metadata
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from goagnes._errors import from_native

_LIBRARY = Path(__file__).with_name("_goagnes.abi3.so")


def _load(name: str) -> ModuleType:
    full = f"goagnes.{name}"
    if full in sys.modules:
        return sys.modules[full]
    loader = importlib.machinery.ExtensionFileLoader(full, str(_LIBRARY))
    spec = importlib.util.spec_from_file_location(full, _LIBRARY, loader=loader)
    if spec is None:
        raise ImportError(f"goagnes: {_LIBRARY} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    sys.modules[full] = module
    return module


def _open() -> tuple[ModuleType, ModuleType, str]:
    """Loads the library and checks that it belongs to this package."""
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        raise ImportError("goagnes does not work without the GIL; run Python with -X gil=1")
    if not _LIBRARY.exists():
        raise ImportError(f"goagnes: {_LIBRARY.name} is missing beside the package; install goagnes with pip")
    # The data plane first: it refuses sub-interpreters.
    data = _load("_goagnes_data")
    control = _load("_goagnes")
    library = str(control.bind_Version())
    try:
        package = importlib.metadata.version("goagnes")
    except importlib.metadata.PackageNotFoundError:
        raise ImportError("goagnes: the package's metadata is missing; install goagnes with pip") from None
    if library != package:
        raise ImportError(f"goagnes: the package is version {package}, its native library {library}; install it again")
    return data, control, package


_data, _control, version = _open()

#: ``Owner(kind, handle, epoch, keep)`` closes a "store", a "loader" or an "epoch" when it is collected, in C: a
#: finalizer in Python would swallow the Ctrl-C that comes within it. ``keep`` lives until then.
Owner: Any = _data.Owner


def call(name: str, *args: int | str) -> Any:
    """Calls a bound function; its errors become the exceptions of :mod:`goagnes._errors`."""
    try:
        return bound(name)(*args)
    except RuntimeError as error:
        raise from_native(error) from None


def bound(name: str) -> Callable[..., Any]:
    """A bound function itself, whose errors are RuntimeErrors with a class."""
    function: Callable[..., Any] = getattr(_control, f"bind_{name}")
    return function


def next_batch(loader: int, epoch: int) -> tuple[Any, ...] | None:
    """The next minibatch as the data plane gives it, None at the end of the epoch.

    Ctrl-C ends the wait; the minibatch is then the next call's.
    """
    try:
        return _data.next(loader, epoch, -1)  # type: ignore[no-any-return]
    except RuntimeError as error:
        raise from_native(error) from None


def counters() -> dict[str, int]:
    """What the data plane has handed out and got back: minibatches, tensors, exported views, slabs."""
    return dict(_data.counters())


def open_handles() -> int:
    """How many stores, loaders and tasks are open."""
    return int(call("OpenHandles"))


def forked() -> bool:
    """Whether this process is a forked child, where the library refuses to work."""
    return bool(_data.forked())


def close(owner: Any, name: str, handle: int) -> None:
    """Closes a handle now in its :data:`Owner`'s place, which holds what the handle needs until it is closed."""
    if owner.alive and not forked():
        try:
            call(name, handle)
        except Exception:
            owner.detach()
            raise
    owner.detach()


def close_quietly(name: str, *handle: int) -> None:
    """Closes a handle that nobody was given: nothing in a forked child, and no error raised.

    Ctrl-C within it is raised when the handle is closed: closing twice does nothing.
    """
    if forked():
        return
    try:
        with contextlib.suppress(Exception):  # the caller has an error of its own
            call(name, *handle)
    except BaseException:
        with contextlib.suppress(Exception):
            call(name, *handle)
        raise
