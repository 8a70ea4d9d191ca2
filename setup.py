"""Builds the wheel: one stable-ABI shared library and the program, both made by Go.

Everything declarative is in pyproject.toml; capi/build.py does the work. This file
only tells setuptools when, and that the result is a cp311-abi3 wheel.
"""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from subprocess import CalledProcessError
from types import ModuleType

from setuptools import Extension, setup
from setuptools.command.build import build
from setuptools.command.build_ext import build_ext
from wheel.bdist_wheel import bdist_wheel

ROOT = Path(__file__).resolve().parent


def load(name: str) -> ModuleType:
    """A file of capi as a module: a build is isolated, nothing of ours is on its path."""
    spec = importlib.util.spec_from_file_location(f"goagnes_{name}", ROOT / "capi" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


native, manylinux = load("build"), load("manylinux")


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
    """Tags the wheel for CPython 3.11 and every later one, and for the oldest glibc that its files allow."""

    def finalize_options(self) -> None:
        self.py_limited_api = "cp311"
        super().finalize_options()

    def get_tag(self) -> tuple[str, str, str]:
        python, abi, platform = super().get_tag()
        package = Path(self.distribution.get_command_obj("build").build_lib) / "goagnes"
        built = [*package.glob("_goagnes*.so"), *package.glob("bin/goagnes")]
        if len(built) == 2:  # not where only metadata is asked for
            try:
                platform = manylinux.tag(built)
            except (manylinux.NotPortableError, OSError, CalledProcessError) as reason:
                print(f"the wheel is for this system only, {platform}: {reason}")
        return python, abi, platform


setup(
    ext_modules=[Extension("goagnes._goagnes", sources=[], py_limited_api=True)],
    cmdclass={"build": CleanBuild, "build_ext": BuildNative, "bdist_wheel": StableWheel},
)
