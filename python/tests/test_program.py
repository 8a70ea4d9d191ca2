"""The command goagnes that the wheel brings, and what else is in it."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
from pathlib import Path

import pytest

import goagnes as ga

PACKAGE = Path(ga.__file__).parent


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "goagnes", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_program_and_package_see_the_same_store(store_path, store):
    done = run("info", store_path, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["build_id"] == store.info()["build_id"]


def test_statuses(tmp_path):
    assert run("nonsense").returncode == 2
    done = run("info", tmp_path / "nowhere")
    assert done.returncode == 3
    assert done.stderr.startswith("goagnes: ")
    assert done.stderr.count("\n") == 1


def test_entry_point():
    (entry,) = (e for e in importlib.metadata.entry_points(group="console_scripts") if e.name == "goagnes")
    assert entry.value == "goagnes._program:main"
    script = Path(sys.executable).with_name("goagnes")
    if not script.exists():
        pytest.skip(f"{script} does not exist: the package was not installed by pip")
    assert subprocess.run([script, "nonsense"], capture_output=True, timeout=60).returncode == 2


def test_no_build_paths_inside():
    """Neither library nor program holds a path of the machine that built it."""
    root = str(Path(__file__).resolve().parents[2]).encode()
    for file in (PACKAGE / "_goagnes.abi3.so", PACKAGE / "bin" / "goagnes"):
        data = file.read_bytes()
        for path in (root, str(Path.home()).encode() + b"/", b"/pip-build-env", b"pkg/mod/"):
            assert path not in data, f"{file.name} holds {path!r}"


def test_library_needs_libc_only():
    """No libpython, and nothing exported but the two module inits."""
    nm = subprocess.run(["nm", "-D", "--defined-only", PACKAGE / "_goagnes.abi3.so"], capture_output=True, text=True)
    if nm.returncode != 0:
        pytest.skip(f"nm is missing: {nm.stderr}")
    names = {line.split()[-1] for line in nm.stdout.splitlines()}
    assert names == {"PyInit__goagnes", "PyInit__goagnes_data"}
    needed = subprocess.run(["objdump", "-p", PACKAGE / "_goagnes.abi3.so"], capture_output=True, text=True).stdout
    libraries = {line.split()[1] for line in needed.splitlines() if line.strip().startswith("NEEDED")}
    assert libraries <= {"libc.so.6", "libpthread.so.0", "libdl.so.2", "libm.so.6"}


def test_public_names():
    assert set(ga.__all__) <= set(dir(ga))
    public = {name for name in vars(ga) if not name.startswith("_")}
    assert public == set(ga.__all__) - {"__version__"}
    assert ga.__version__ == importlib.metadata.version("goagnes")
    assert (PACKAGE / "py.typed").exists()
