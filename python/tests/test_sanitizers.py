"""The library's C under the address and undefined-behaviour sanitizers, in Python with Go.

The library for tests is built with them (capi/build.py, sanitized=True), and an
interpreter with the compiler's libasan.so before everything runs what native/ has on
the data plane. A finding ends the process. capi/fuzz drives the same C without Go, at
random.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from overlays import overlay, run_native
from test_native import NATIVE, cases

pytestmark = pytest.mark.slow

#: Of native/ those that reach the C of the data plane; waits and growth are tested without sanitizers.
MODULES = ("bound", "dlpack", "lifetime", "threads", "failures")
LEFT_OUT = {"check_nothing_grows", "check_errors_leak_nothing", "check_dropping_a_view_wakes_the_pool"}


@pytest.fixture(scope="session")
def sanitizers() -> dict[str, str]:
    """The environment of an interpreter under sanitizers."""
    found = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=False)
    library = Path(found.stdout.strip() or "none").resolve()
    if not library.is_file():
        pytest.skip("the compiler has no libasan.so: install the sanitizers of gcc")
    return {
        "LD_PRELOAD": str(library),
        # Python frees nothing at its end; Go has signal stacks and handlers of its own.
        "ASAN_OPTIONS": "detect_leaks=0:use_sigaltstack=0:abort_on_error=1:allocator_may_return_null=1",
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
        "PYTHONMALLOC": "malloc",
    }


@pytest.fixture(scope="session")
def sanitized_double(sanitizers, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return overlay(tmp_path_factory.mktemp("double"), testing=True, sanitized=True)


def chosen() -> list[object]:
    every = [case for case in cases() if not case.marks]
    return [c for c in every if c.values[0] in MODULES and c.values[1] not in LEFT_OUT]


@pytest.mark.parametrize(("module", "function"), chosen())
def test_native(module: str, function: str, sanitized_double: Path, sanitizers: dict[str, str]) -> None:
    run_native(sanitized_double, module, function, **sanitizers)


def test_sanitizers_find(sanitized_double: Path, sanitizers: dict[str, str]) -> None:
    """The checks are on: in the library's own C, and for a consumer that reads a view it has given back."""
    symbols = subprocess.run(
        ["nm", "-D", "--undefined-only", str(sanitized_double / "goagnes" / "_goagnes.abi3.so")],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for symbol in ("__asan_report_load8", "__asan_report_store8", "__ubsan_handle_pointer_overflow"):
        assert symbol in symbols
    code = (
        "import ctypes, dlpack\n"
        "from dlpack import Versioned, _pointer\n"
        "capsule = dlpack.tensor_of().__dlpack__(max_version=(1, 0), copy=True)\n"
        "managed = ctypes.cast(_pointer(capsule, b'dltensor_versioned'), ctypes.POINTER(Versioned)).contents\n"
        "address = managed.tensor.data\n"
        "ctypes.string_at(address, 60)\n"
        "del capsule\n"
        "ctypes.string_at(address, 60)\n"
    )
    env = dict(os.environ, PYTHONPATH=os.pathsep.join([str(sanitized_double), str(NATIVE)]), **sanitizers)
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert "heap-use-after-free" in done.stderr, done.stderr
