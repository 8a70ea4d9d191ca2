"""The manylinux tag of a wheel, by what its ELF files need of the system (PEP 600).

manylinux_2_N means: glibc 2.N or newer, and of other libraries none but those that the
policy lists. Read from the files' dynamic sections and symbol versions by binutils'
readelf, which comes with every C compiler.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

#: Of the policy's libraries those that C and Go programs link.
PERMITTED = frozenset(
    "libc.so.6 libm.so.6 libpthread.so.0 libdl.so.2 librt.so.1 libresolv.so.2 libutil.so.1 libnsl.so.1 "
    "ld-linux-x86-64.so.2 ld-linux-aarch64.so.1".split()
)
_OLDEST = 17  # of glibc 2.x: manylinux2014, the oldest policy that installers still know


class NotPortableError(Exception):
    """A file needs what the policy does not allow; the text says what."""


def needs(file: Path) -> tuple[set[str], int]:
    """The libraries that a file names, and the newest 2.N among the versions of glibc's symbols that it uses."""
    command = ["readelf", "--wide", "--dynamic", "--version-info", str(file)]
    text = subprocess.run(command, check=True, capture_output=True, text=True, env=dict(os.environ, LC_ALL="C")).stdout
    libraries = set(re.findall(r"\(NEEDED\)\s+Shared library: \[([^\]]+)\]", text))
    newest = _OLDEST
    needed = text.partition("Version needs section")[2]
    for name in re.findall(r"Name: (\S+)", needed):
        version = re.fullmatch(r"GLIBC_2\.(\d+)(?:\.\d+)?", name)
        if version is None:
            raise NotPortableError(f"{file.name} uses symbols of version {name}")
        newest = max(newest, int(version[1]))
    return libraries, newest


def tag(files: Iterable[Path]) -> str:
    """The platform tag of a wheel with these ELF files; NotPortableError where there is none."""
    machine = platform.machine()
    if machine not in ("x86_64", "aarch64"):
        raise NotPortableError(f"no manylinux tag is given for {machine}")
    newest = _OLDEST
    for file in files:
        libraries, minor = needs(file)
        if not libraries <= PERMITTED:
            raise NotPortableError(f"{file.name} needs {', '.join(sorted(libraries - PERMITTED))}")
        newest = max(newest, minor)
    return f"manylinux_2_{newest}_{machine}"
