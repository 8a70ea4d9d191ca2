"""Builds the wheel: one stable-ABI shared library and the program, both made by Go.

Everything declarative is in pyproject.toml; capi/build.py does the work. This file
only tells setuptools when, and that the result is a cp311-abi3 wheel.
"""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build import build
from setuptools.command.build_ext import build_ext
from wheel.bdist_wheel import bdist_wheel

ROOT = Path(__file__).resolve().parent
spec = importlib.util.spec_from_file_location("goagnes_build", ROOT / "capi" / "build.py")
native = importlib.util.module_from_spec(spec)
spec.loader.exec_module(native)


class CleanBuild(build):
    """Starts from nothing, so that no file of an earlier build reaches the wheel."""

    def run(self) -> None:
        shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()


class BuildNative(build_ext):
    """Has Go build the library, and the program beside it in goagnes/bin."""

    def build_extension(self, extension: Extension) -> None:
        target = Path(self.get_ext_fullpath(extension.name)).resolve()
        native.library(target)
        native.program(target.parent / "bin" / "goagnes")

    def copy_extensions_to_source(self) -> None:
        """For an editable install: the program too."""
        super().copy_extensions_to_source()
        built = Path(self.build_lib).resolve() / "goagnes" / "bin" / "goagnes"
        beside = ROOT / "python" / "goagnes" / "bin" / "goagnes"
        beside.parent.mkdir(exist_ok=True)
        shutil.copy(built, beside)


class StableWheel(bdist_wheel):
    """Tags the wheel for CPython 3.11 and every later one."""

    def finalize_options(self) -> None:
        self.py_limited_api = "cp311"
        super().finalize_options()


setup(
    ext_modules=[Extension("goagnes._goagnes", sources=[], py_limited_api=True)],
    cmdclass={"build": CleanBuild, "build_ext": BuildNative, "bdist_wheel": StableWheel},
)
