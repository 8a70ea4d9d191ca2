"""The boundary under stress: every function of stress/, each in its own interpreter.

Threads and both collectors, the interpreter's end, storms of Ctrl-C, forks, worker
processes. GOAGNES_STRESS=long runs the lengths that take minutes: 6 threads x 20,000
minibatches, 200 interrupts for each kind of work.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

STRESS = Path(__file__).with_name("stress")


def cases() -> Iterator[object]:
    """The functions of stress/ that start with check_, with what their docstrings ask for."""
    for path in sorted(STRESS.glob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("check_"):
                asked = ast.get_docstring(node) or ""
                marks = [pytest.mark.torch] if "(torch)" in asked else [pytest.mark.slow]
                settings = dict(re.findall(r"\((GOGC)=(\d+)\)", asked))
                yield pytest.param(path.stem, node.name, settings, id=f"{path.stem}-{node.name[6:]}", marks=marks)


@pytest.mark.parametrize(("module", "function", "settings"), list(cases()))
def test_stress(module: str, function: str, settings: dict[str, str], tmp_path: Path, request) -> None:
    if request.node.get_closest_marker("torch"):
        pytest.importorskip("torch")
    run(module, function, tmp_path, settings)


def run(module: str, function: str, folder: Path, settings: dict[str, str]) -> str:
    """Runs one function; the test fails with what it printed. Returns that."""
    paths = [str(STRESS), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = dict(os.environ, PYTHONPATH=os.pathsep.join(paths), PYTHONDONTWRITEBYTECODE="1", **settings)
    code = f"import pathlib, {module}; {module}.{function}(pathlib.Path({str(folder)!r}))"
    command = [sys.executable, "-X", "faulthandler", "-W", "error", "-c", code]
    limit = 3600 if os.environ.get("GOAGNES_STRESS") == "long" else 300
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=limit)
    if done.returncode != 0:
        pytest.fail(f"exit status {done.returncode}\n{done.stdout}{done.stderr}", pytrace=False)
    print(done.stdout)
    return done.stdout
