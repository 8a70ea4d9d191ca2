"""DLPack, unversioned and 1.x, as consumers in C see it."""

from __future__ import annotations

import ctypes
import gc
import threading

import numpy as np
from synthetic import Loader, balanced, raises

from goagnes import _native


class DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class Managed(ctypes.Structure):
    _fields_ = (("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    )


_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
_name = ctypes.pythonapi.PyCapsule_GetName
_name.restype, _name.argtypes = ctypes.c_char_p, (ctypes.py_object,)
_rename = ctypes.pythonapi.PyCapsule_SetName
_rename.argtypes = (ctypes.py_object, ctypes.c_char_p)
USED = ctypes.create_string_buffer(b"used_dltensor")


def tensor_of(dtype: str = "float32"):
    loader = Loader(batches=2, nodes=5, features=3, dtype=dtype)
    _, raw = loader.raw()
    return raw[6]["x"]


def check_unversioned() -> None:
    tensor = tensor_of()
    for arguments in ({}, {"max_version": None}, {"max_version": (0, 8)}, {"stream": None, "copy": False}):
        capsule = tensor.__dlpack__(**arguments)
        assert _name(capsule) == b"dltensor"
        described = ctypes.cast(_pointer(capsule, b"dltensor"), ctypes.POINTER(Managed)).contents.tensor
        assert described.data == tensor.address
        assert (described.device_type, described.device_id, described.byte_offset) == (1, 0, 0)
        assert (described.code, described.bits, described.lanes) == (2, 32, 1)
        assert described.shape[: described.ndim] == [5, 3]
        assert described.strides[: described.ndim] == [3, 1]
    del capsule
    assert _native.counters()["exports_freed"] == 4


def check_versioned() -> None:
    tensor = tensor_of("float16")
    for version in ((1, 0), (1, 3), (2, 0)):
        capsule = tensor.__dlpack__(max_version=version, dl_device=(1, 0))
        assert _name(capsule) == b"dltensor_versioned"
        managed = ctypes.cast(_pointer(capsule, b"dltensor_versioned"), ctypes.POINTER(Versioned)).contents
        assert (managed.major, managed.minor, managed.flags) == (1, 0, 0)
        assert managed.tensor.data == tensor.address
        assert (managed.tensor.code, managed.tensor.bits) == (2, 16)


def check_element_codes() -> None:
    codes = {"int64": (0, 64), "uint16": (1, 16), "float64": (2, 64), "bfloat16": (4, 16), "bool": (6, 8)}
    for dtype, code in codes.items():
        capsule = tensor_of(dtype).__dlpack__()
        described = ctypes.cast(_pointer(capsule, b"dltensor"), ctypes.POINTER(Managed)).contents.tensor
        assert (described.code, described.bits) == code, dtype


def check_copy() -> None:
    tensor = tensor_of()
    capsule = tensor.__dlpack__(max_version=(1, 0), copy=True)
    managed = ctypes.cast(_pointer(capsule, b"dltensor_versioned"), ctypes.POINTER(Versioned)).contents
    assert managed.flags == 2
    assert managed.tensor.data != tensor.address
    assert ctypes.string_at(managed.tensor.data, 60) == bytes(tensor)
    del capsule
    balanced_exports()


def balanced_exports() -> None:
    gc.collect()
    counts = _native.counters()
    assert counts["exports_made"] == counts["exports_freed"] > 0, counts


def check_refusals() -> None:
    tensor = tensor_of()
    assert tensor.__dlpack_device__() == (1, 0)
    raises(BufferError, "stream must be None", tensor.__dlpack__, stream=1)
    raises(BufferError, "(2, 0)", tensor.__dlpack__, dl_device=(2, 0))
    raises(BufferError, "(4294967297, 0)", tensor.__dlpack__, dl_device=(2**32 + 1, 0))  # not cut to (1, 0)
    raises(TypeError, "", tensor.__dlpack__, dl_device=(None, "x"))
    for bad in (1, (1,), "ab", (1, 2, 3)):
        raises(TypeError, "", tensor.__dlpack__, max_version=bad)
        raises(TypeError, "", tensor.__dlpack__, dl_device=bad)
    raises(TypeError, "", tensor.__dlpack__, None)
    raises(TypeError, "", tensor.__dlpack__, other=1)


def check_consumed_capsule_keeps_the_memory() -> None:
    """As a consumer does: rename the capsule, drop every Python object, call the deleter later."""
    tensor = tensor_of()
    address = tensor.address
    capsule = tensor.__dlpack__()
    managed = ctypes.cast(_pointer(capsule, b"dltensor"), ctypes.POINTER(Managed))
    _rename(capsule, ctypes.cast(USED, ctypes.c_char_p))
    del capsule, tensor
    gc.collect()
    assert _native.counters()["exports_freed"] == 0
    assert np.frombuffer(ctypes.string_at(address, 60), np.float32).tolist() == [1.0] * 15
    # CFUNCTYPE releases the GIL during the call: the deleter needs neither it nor Go.
    delete = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(managed.contents.deleter)
    thread = threading.Thread(target=delete, args=(ctypes.cast(managed, ctypes.c_void_p),))
    thread.start()
    thread.join()
    assert _native.counters()["exports_freed"] == 1
    balanced()


def check_numpy_round_trip() -> None:
    tensor = tensor_of()
    array = np.from_dlpack(tensor)
    assert (array == 1).all()
    del tensor
    gc.collect()
    assert (array == 1).all()
    del array
    balanced_exports()
