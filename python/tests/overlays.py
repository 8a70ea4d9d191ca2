"""Directories with the package and a library of other settings, and running cases with them."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def _builder():
    spec = importlib.util.spec_from_file_location("goagnes_build", ROOT / "capi" / "build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def overlay(folder: Path, **settings: bool) -> Path:
    """Makes folder a directory whose package goagnes has a library built with these settings."""
    if importlib.util.find_spec("pybindgen") is None:
        pytest.skip(f"the library for tests cannot be built: pybindgen is not installed in {sys.prefix}")
    if shutil.which("go") is None or not (ROOT / "go.mod").exists():
        pytest.skip("the library for tests cannot be built: no Go tool or no source tree")
    package = folder / "goagnes"
    shutil.copytree(ROOT / "python" / "goagnes", package, ignore=shutil.ignore_patterns("*.so", "bin", "__pycache__"))
    builder = _builder()
    builder.library(package / "_goagnes.abi3.so", **settings)
    metadata = folder / f"goagnes-{builder.version()}.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text(f"Metadata-Version: 2.1\nName: goagnes\nVersion: {builder.version()}\n")
    return folder


def run_native(package: Path, module: str, function: str, **settings: str) -> None:
    """Runs one function of native/ with the package in a directory; settings are of the environment."""
    env = dict(os.environ, PYTHONPATH=os.pathsep.join([str(package), str(ROOT / "python" / "tests" / "native")]))
    env |= {"PYTHONWARNINGS": "error", **settings}
    code = f"import {module}; {module}.{function}()"
    command = [sys.executable, "-X", "faulthandler", "-c", code]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        pytest.fail(f"exit status {done.returncode}\n{done.stdout}{done.stderr}", pytrace=False)
