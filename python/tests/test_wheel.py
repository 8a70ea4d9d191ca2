"""The wheel's tag: what its files need of a system, and no more."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
from pathlib import Path

import pytest

#: Of the stable ABI though they start with an underscore: what its macros expand to.
PRIVATE_BUT_STABLE = {
    *("_Py_Dealloc", "_Py_NoneStruct", "_Py_TrueStruct", "_Py_FalseStruct", "_Py_BuildValue_SizeT", "_PyObject_New"),
    *("_PyArg_ParseTupleAndKeywords_SizeT", "_PyArg_ParseTuple_SizeT"),
}

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def manylinux():
    if not (ROOT / "capi" / "manylinux.py").exists():
        pytest.skip("no source tree")
    spec = importlib.util.spec_from_file_location("manylinux", ROOT / "capi" / "manylinux.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def installed() -> list[Path]:
    package = importlib.metadata.distribution("goagnes")
    names = ("goagnes/_goagnes.abi3.so", "goagnes/bin/goagnes")
    return [Path(package.locate_file(name)) for name in names]


def test_tag_is_what_the_files_need(manylinux):
    wheel = importlib.metadata.distribution("goagnes").read_text("WHEEL")
    (tag,) = re.findall(r"^Tag: (.*)$", wheel, re.M)
    assert tag == f"cp311-abi3-{manylinux.tag(installed())}"
    (minor,) = re.findall(r"manylinux_2_(\d+)_", tag)
    for file in installed():
        libraries, newest = manylinux.needs(file)
        assert libraries <= manylinux.PERMITTED
        assert newest <= int(minor)
    assert int(minor) <= 34, "an older system than Debian 12 is no longer served"


def test_what_no_tag_allows(manylinux, tmp_path):
    """Files that need another library, or symbols of no glibc, get no tag."""
    library, _ = installed()
    odd = tmp_path / "odd.so"
    raw = library.read_bytes()
    for old, new, text in (
        (b"libc.so.6\0", b"libx.so.6\0", "needs libx.so.6"),
        (b"GLIBC_2.34\0", b"GLIBX_2.34\0", "version GLIBX_2.34"),
    ):
        assert old in raw
        odd.write_bytes(raw.replace(old, new))
        with pytest.raises(manylinux.NotPortableError, match=text):
            manylinux.tag([library, odd])
    odd.write_bytes(raw.replace(b"GLIBC_2.34\0", b"GLIBC_2.99\0"))
    assert "manylinux_2_99_" in manylinux.tag([library, odd])


def test_only_the_stable_abi():
    """Python's symbols that the library takes from the interpreter are of its stable ABI of 3.11."""
    names = set(re.findall(rb"\0(_?Py[A-Z_a-z]\w+)(?=\0)", installed()[0].read_bytes()))
    taken = {name.decode() for name in names if b"Init__" not in name}
    assert len(taken) > 30
    private = {name for name in taken if name.startswith("_Py")}
    assert private <= PRIVATE_BUT_STABLE, private
