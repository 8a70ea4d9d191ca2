"""Every public function, method and property with every hostile value in every parameter: see hostile/.

Nothing may crash or hang, errors are of the types that docs/python.md names, nothing
stays open or behind, and the store still works afterwards. What is called is found by
introspection, so that new functions are covered by themselves.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HOSTILE = Path(__file__).with_name("hostile")
sys.path.insert(0, str(HOSTILE))

from surface import targets  # noqa: E402

GROUPS = sorted({target.name.partition(".")[0] for target in targets()})
FAST = {"Epoch", "Explanation", "Export", "ExportEpoch", "NodeArray", "open", "read_export", "verify"}


def drive(name: str, *extra: str) -> dict[str, int]:
    """Runs hostile/drive.py; fails with the calls that ended in another way than documented."""
    command = [sys.executable, str(HOSTILE / "drive.py"), name, *extra]
    env = dict(os.environ, PYTHONDONTWRITEBYTECODE="1")
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=env, errors="replace")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    wrong = [f"{line['call']}: {line['ended']}" for line in lines if "call" in line]
    if done.returncode != 0:
        last = "\n".join(done.stderr.splitlines()[-30:])
        wrong.append(f"exit status {done.returncode} in the call before this:\n{last}")
    if wrong:
        pytest.fail(f"{len(wrong)} calls:\n" + "\n".join(wrong[:20]), pytrace=False)
    return lines[-1]


@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n in FAST else [pytest.mark.slow]) for n in GROUPS])
def test_hostile_values(name: str) -> None:
    counts = drive(name)
    assert counts["targets"] >= 1
    assert counts["calls"] > counts["raised"] > 0 or counts["calls"] == 2


def test_surface_is_the_package() -> None:
    """The introspection sees what people call: a list by hand of some of it, and no less than there was."""
    found = {target.name for target in targets()}
    assert found >= {
        *("build", "open", "train", "export", "read_export", "generate", "import_dataset", "verify"),
        *("NeighborLoader", "NeighborLoader.set_epoch", "NeighborLoader.stats", "Store.neighbors", "Store.num_nodes"),
        *("NodeArray.__getitem__", "Batch.__getattr__", "Export.epoch", "ExportEpoch.__getitem__", "Epoch.__next__"),
    }
    assert len(found) > 90


@pytest.mark.torch
@pytest.mark.parametrize("name", ["build", "NeighborLoader", "NodeArray", "Store", "export", "train"])
def test_hostile_tensors(name: str) -> None:
    pytest.importorskip("torch")
    drive(name, "torch")
