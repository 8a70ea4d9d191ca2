"""Markers and fixtures of the cross-language tests."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    for line in (
        "slow: takes more than a few seconds; not in `make check`",
        "torch: needs torch and torch_geometric; runs where TORCH_PYTHON names an interpreter with them",
        "readme: executes the commands of the README; runs in CI and by `make readme-tests`",
    ):
        config.addinivalue_line("markers", line)
