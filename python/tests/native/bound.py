"""Every native function by introspection: of the control plane, of the data plane, of its Tensor.

Each with every kind of wrong value in each parameter: an exception, and the library
still works. In a forked child each refuses at once.
"""

from __future__ import annotations

import ctypes
import itertools
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from forks import _child, _refused
from synthetic import Loader, balanced

from goagnes import _native, _tasks

sys.path.insert(0, str(Path(__file__).parents[1] / "hostile"))

from values import SCALARS, CallerError, Value

#: What a native function may raise: Python's own, and errors with a class.
_CLASSES = ("usage", "closed", "unsupported", "input")

#: A huge timeout is a wait, not an error: nothing is there to wait for.
_FEW: list[Value] = [v for v in SCALARS if v[0] in ("None", "-1", "'x'", "1.5", repr(2**200), repr(2**63), "''")]


def control() -> dict[str, list[str]]:
    """The bound functions, and the C types of their parameters, as their docstrings say."""
    found = {}
    for name in dir(_native._control):
        if name.startswith("bind_"):
            text = getattr(_native._control, name).__doc__
            found[name.removeprefix("bind_")] = re.findall(r"^type: \w+: (.*)$", text, re.M)
            assert len(found[name.removeprefix("bind_")]) == len(
                re.findall(r"\w+", text.partition("(")[2].partition(")")[0])
            )
    return found


def _valid(kind: str) -> int | str:
    return "{}" if kind.startswith("char") else 10_000_000


def _call(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Calls it; whatever it raises has to be what _CLASSES and Python's protocols allow."""
    try:
        return function(*arguments, **named)
    except (TypeError, OverflowError, ValueError, BufferError, TimeoutError, DeprecationWarning, CallerError):
        return None
    except RuntimeError as error:
        assert str(error).partition(":")[0] in _CLASSES, (function, arguments, error)
        return None


def check_control_plane() -> None:
    functions = control()
    assert len(functions) >= 14, functions
    for name, kinds in functions.items():
        function = _native.bound(name)
        valid = [_valid(kind) for kind in kinds]
        for count in {0, len(kinds) + 1, len(kinds) + 5} - {len(kinds)}:
            try:
                function(*[1] * count)
            except TypeError:
                continue
            raise AssertionError(f"{name} took {count} arguments")
        for at, (_, make) in itertools.product(range(len(kinds)), SCALARS):
            made = _call(function, *valid[:at], make(), *valid[at + 1 :])
            if name == "Start" and made is not None:
                _native.call("Abandon", made)
        for _, make in SCALARS:
            _call(function, **{"no such": make()})
    assert _tasks.run("echo", {"a": 1}) == {"a": 1}
    assert _native.open_handles() == 0


def check_kinds_of_work() -> None:
    """Requests that are no JSON, or JSON of other kinds, to names of work that are and are not."""
    texts = (
        "",
        " ",
        "{",
        "[]",
        "null",
        "1",
        '"a"',
        "{}",
        "[" * 10_000,
        '{"store": 1e400}',
        '{"store": {}}',
        '{"store": -1}',
    )
    texts += (
        '{"path": 5}',
        '{"store": 99999999999999999999}',
        '{"a": "' + "x" * 100_000 + '"}',
        "\ufeff{}",
        '{"path": "\udcff"}',
    )
    for kind, text in itertools.product(("echo", "open", "loader", "build", "", "x" * 1000, "no such"), texts):
        made = _call(_native.bound("Start"), kind, text)
        if made is not None:
            _native.call("Abandon", made)
    for _ in range(200):
        if _native.open_handles() == 0:
            break
        _native.call("Drain", 50)
    assert _native.open_handles() == 0


def check_data_plane() -> None:
    functions = {name: getattr(_native._data, name) for name in dir(_native._data) if not name.startswith("_")}
    functions = {name: f for name, f in functions.items() if callable(f) and not isinstance(f, type)}
    assert {"next", "counters", "forked"} <= set(functions)
    loader = Loader(batches=1)
    epoch = loader.begin()
    for function in functions.values():
        for count in (1, 2, 4):
            for _, make in SCALARS:
                _call(function, *[make() for _ in range(count)])
        for _, make in SCALARS:
            _call(function, make(), epoch, 0)
            _call(function, loader.handle, make(), 0)
            _call(function, 10_000_000, epoch, make())
            _call(function, loader=make())
    assert _native.next_batch(loader.handle, epoch)[0] == 0
    loader.close()
    balanced()


def check_tensor() -> None:
    """Every attribute and method of a Tensor, the protocols of Python among them."""
    loader = Loader(batches=1, nodes=4, features=3)
    (raw,) = loader.raw()
    tensor = raw[6]["x"]
    names = set(dir(type(tensor))) - {"__class__", "__doc__", "__init_subclass__", "__subclasshook__"}
    assert {"__dlpack__", "__dlpack_device__", "__reduce__", "shape", "dtype", "nbytes", "address"} <= names
    for name, (_, make) in itertools.product(sorted(names), SCALARS):
        value = getattr(tensor, name)
        for change, arguments in ((setattr, (make(),)), (delattr, ())):
            try:
                change(tensor, name, *arguments)
            except (AttributeError, TypeError, CallerError):
                continue
            raise AssertionError(f"{name} was set or deleted")
        if callable(value):
            try:
                _call(value, make())
                _call(value, make(), make())
            except AttributeError:
                assert name in ("__setattr__", "__delattr__", "__getattribute__")
    for _, make in SCALARS:
        for name in ("stream", "max_version", "dl_device", "copy", "other"):
            _call(tensor.__dlpack__, **{name: make()})
        for _, other in _FEW:
            for pair in ((make(), other()), (other(), make()), (make(),), (make(), other(), 1)):
                _call(tensor.__dlpack__, max_version=pair)
                _call(tensor.__dlpack__, dl_device=pair)
        _call(tensor.__dlpack__, make())
    assert memoryview(tensor).tolist()[3] == [0, 0, 0]
    assert tensor.shape == (4, 3) and tensor.dtype == "float32"
    del tensor, raw, value
    loader.close()
    balanced()


class _Buffer(ctypes.Structure):
    _fields_ = (
        *(
            ("buf", ctypes.c_void_p),
            ("obj", ctypes.py_object),
            ("len", ctypes.c_ssize_t),
            ("itemsize", ctypes.c_ssize_t),
        ),
        *(("readonly", ctypes.c_int), ("ndim", ctypes.c_int), ("format", ctypes.c_char_p)),
        *(
            ("shape", ctypes.c_void_p),
            ("strides", ctypes.c_void_p),
            ("suboffsets", ctypes.c_void_p),
            ("internal", ctypes.c_void_p),
        ),
    )


def check_buffer_flags() -> None:
    """Every combination of what a consumer of the buffer protocol may ask for."""
    get, release = ctypes.pythonapi.PyObject_GetBuffer, ctypes.pythonapi.PyBuffer_Release
    get.argtypes, get.restype = (ctypes.py_object, ctypes.POINTER(_Buffer), ctypes.c_int), ctypes.c_int
    release.argtypes, release.restype = (ctypes.POINTER(_Buffer),), None
    loader = Loader(batches=1, nodes=4, features=3)
    (raw,) = loader.raw()
    taken = 0
    for tensor, flags in itertools.product(raw[6].values(), range(0x400)):
        view = _Buffer()
        try:
            get(tensor, view, flags)
        except BufferError:
            continue
        taken += 1
        assert view.len == tensor.nbytes and view.buf == tensor.address
        assert bool(view.shape) == bool(flags & 0x8)
        assert bool(view.format) == bool(flags & 0x4)
        release(view)
    assert taken > 1000
    del tensor, raw
    loader.close()
    balanced()


def check_forked_child() -> None:
    """No native function works after a fork, and each says so at once."""
    loader = Loader(batches=3)
    epoch = loader.begin()

    def body() -> None:
        for name, kinds in control().items():
            _refused(_native.call, name, *map(_valid, kinds))
        _refused(_native._data.next, loader.handle, epoch, 0)

    _child(body)
    assert [raw[0] for raw in loader.raw()] == [0, 1, 2]
