"""Sizes, progress displays and error texts."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

import goagnes as ga
from goagnes import _errors, _progress
from goagnes._sizes import parse_size


@pytest.mark.parametrize(
    ("value", "size"),
    [
        (1, 1),
        ("1", 1),
        ("7 B", 7),
        ("1KB", 1000),
        ("1KiB", 1024),
        ("3 mib", 3 << 20),
        ("2GB", 2_000_000_000),
        ("1.5GiB", 3 << 29),
        ("1TiB", 1 << 40),
        (" 9 ", 9),
        ("9007199254740993", 9007199254740993),
    ],
)
def test_sizes(value, size):
    assert parse_size("memory", value) == size


@pytest.mark.parametrize(
    "value",
    [
        *(0, -1, "", "KiB", "1 XB", "1e", "-5MiB", "1,000", "0x10", 1.0, None, [], True, 1 << 63, "9EiB", "0.1B", "∞"),
        *("9" * 5000, "9" * 400 + ".0"),
    ],
)
def test_not_sizes(value):
    with pytest.raises(ga.UsageError, match="scratch_limit="):
        parse_size("scratch_limit", value)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_bar_on_a_terminal(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    for progress in (None, True):
        show = _progress.display(progress)
        show("sort edges", 1, 4)
        show("sort edges", 9, 4)
        show("count", 1234567, 0)
        show("end", 0, 0)
        show.end()
        lines = sys.stderr.getvalue().split("\r")
        assert lines[1].rstrip() == f"sort edges [{'#' * 7}{'.' * 23}]  25 %"
        assert "100 %" in lines[2]
        assert lines[3].rstrip() == "count 1,234,567"
        assert lines[4].strip() == "end"
        assert lines[-1] == ""  # the bar is wiped
        sys.stderr.seek(0)
        sys.stderr.truncate()
    _progress.display(False)("sort edges", 1, 4)
    assert sys.stderr.getvalue() == ""


def test_lines_elsewhere(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    _progress.display(None)("sort", 1, 4)
    assert sys.stderr.getvalue() == ""
    show = _progress.display(True)
    for done in range(4):
        show("sort", done, 4)
    show("write", 7, 0)
    show.end()
    assert sys.stderr.getvalue() == "goagnes: sort 0 %\ngoagnes: write 7\n"
    monkeypatch.setattr(sys, "stderr", None)
    _progress.display(True)("sort", 1, 4)
    with pytest.raises(TypeError, match="progress='yes'"):
        _progress.display("yes")


def test_error_texts():
    assert str(_errors.from_text("input: a.txt:3: bad: id")) == "a.txt:3: bad: id"
    assert _errors.from_text("no class here") is None
    assert _errors.from_text("unknown: text") is None
    assert _errors.from_text("input") is None
    native = RuntimeError("after os.fork()")
    assert _errors.from_native(native) is native
    for kind in _errors._CLASSES.values():
        assert issubclass(kind, ga.Error)
        assert kind.__name__ in ga.__all__
        assert kind.__doc__


def test_shared_sizes():
    """The table that the shell's parser is held to."""
    table = json.loads((Path(__file__).parents[2] / "tests" / "sizes.json").read_text())
    for text, size in table["sizes"].items():
        assert parse_size("memory", text) == size, text
    for text in table["refused"]:
        with pytest.raises(ga.UsageError):
            parse_size("memory", text)
