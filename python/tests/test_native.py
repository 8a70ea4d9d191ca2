"""The native library over a synthetic engine: every function of native/, each in its own interpreter."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

NATIVE = Path(__file__).with_name("native")


def cases() -> Iterator[object]:
    """The functions of native/ that start with check_, marked slow where their docstring says so."""
    for path in sorted(NATIVE.glob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("check_"):
                slow = "(slow)" in (ast.get_docstring(node) or "")
                marks = [pytest.mark.slow] if slow else []
                yield pytest.param(path.stem, node.name, id=f"{path.stem}-{node.name[6:]}", marks=marks)


@pytest.mark.parametrize(("module", "function"), list(cases()))
def test_native(module: str, function: str, run_case: Callable[[str, str], None]) -> None:
    run_case(module, function)
