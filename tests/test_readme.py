"""Every command of the README works, in order, from the repository's root.

Blocks marked sh, python and go are executed; a block of another kind (the picture of the demo's
result) is not. The blocks build on each other, as they do for a reader: the first failure skips the
rest. Run by `make readme-tests` and in CI.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
BLOCKS = [
    (language, text)
    for language, text in re.findall(r"^```(\w+)\n(.*?)^```", README.read_text(), re.DOTALL | re.MULTILINE)
    if language in ("sh", "python", "go")
]
failed: list[str] = []


def test_readme_has_every_way_in():
    """Shell, Python and Go are all shown, so all are executed below."""
    assert {language for language, _ in BLOCKS} == {"sh", "python", "go"}


def name(number: int) -> str:
    language, text = BLOCKS[number]
    return f"{number}-{language}-{text.split(chr(10))[0][:40]}"


@pytest.mark.readme
@pytest.mark.parametrize("number", range(len(BLOCKS)), ids=name)
def test_block(number, tmp_path):
    if failed:
        pytest.skip(f"an earlier block failed: {failed[0]}")
    language, text = BLOCKS[number]
    environment = dict(os.environ, PATH=f"{ROOT / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}")
    if language == "sh":
        if "make test\n" in text:  # what runs these very tests: .ci/run calls it by itself
            assert "make test" in (ROOT / ".ci/run").read_text()
            text = text.replace("make test\n", "")
        command = ["bash", "-euo", "pipefail", "-c", text]
    elif language == "python":
        command = [str(Path(sys.executable)), "-c", text]
    else:
        source = tmp_path / "main.go"
        source.write_text(text)
        command = ["go", "run", str(source)]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=900
    )
    if done.returncode:
        failed.append(name(number))
    assert done.returncode == 0, f"{text}\nstatus {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"


def test_result_shown_is_the_demo_s_own():
    """The picture in the README is docs/demo/report.txt, which `make demo` wrote."""
    assert (ROOT / "docs/demo/report.txt").read_text().strip() in README.read_text()
