"""The page of `goagnes report`, looked at in a browser: Debian's chromium, without a window."""

from __future__ import annotations

import json
import re
import shutil
import struct
import subprocess
import sys
import zlib
from collections import Counter
from pathlib import Path

import pytest

GOAGNES = Path(sys.executable).parent / "goagnes"
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no chromium here: install Debian's package of that name")

# Colours of the page in light mode, as its style names them.
SERIES = {"a": (0x24, 0x67, 0xA8), "b": (0xD9, 0x77, 0x2B), "c": (0x9A, 0xA5, 0xB1)}
WHITE = (255, 255, 255)


def goagnes(*arguments: object) -> str:
    return subprocess.run([GOAGNES, *map(str, arguments)], check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a training run that spills."""
    folder = tmp_path_factory.mktemp("report")
    store = folder / "store"
    goagnes("generate", store, "--kind", "community", "--num-nodes", 30_000, "--num-features", 64, "--num-classes", 4)
    run = goagnes(
        "train", store, "--layers", 2, "--hidden", 16, "--epochs", 3, "--num-neighbors", "5,5",
        "--eval-neighbors", "5,5", "--memory", "16MiB", "--calibrate", "--json",
    )  # fmt: skip
    document = json.loads(run)
    assert document["kind"] == "train" and document["timeline"]["bytes_read"]
    assert sum(document["timeline"]["bytes_read"]) >= document["io"]["bytes_read"] > 0
    assert document["peak_memory"] <= document["memory"] == 16 << 20
    assert max(document["memory_peaks"].values()) <= document["peak_memory"]
    (folder / "run.json").write_text(run)
    goagnes("report", folder / "run.json", "--out", folder / "run.html")
    return folder / "run.html"


def look(page: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    assert BROWSER is not None
    profile = page.parent / "profile"
    return subprocess.run(
        [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--enable-logging=stderr",
         f"--user-data-dir={profile}", *flags, page.as_uri()],
        check=True, capture_output=True, text=True, timeout=180,
    )  # fmt: skip


def pixels(png: bytes) -> tuple[int, list[bytes]]:
    """Bytes a pixel and the rows of an 8-bit PNG."""
    at, data, width, height, samples = 8, b"", 0, 0, 0
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at : at + 8])
        body = png[at + 8 : at + 8 + length]
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack(">IIBB", body[:10])
            assert depth == 8
            samples = {2: 3, 6: 4}[colour]
        elif kind == b"IDAT":
            data += body
        at += 12 + length
    raw = zlib.decompress(data)
    step = width * samples
    rows: list[bytes] = []
    above = bytearray(step)
    for y in range(height):
        filtering, line = raw[y * (step + 1)], bytearray(raw[y * (step + 1) + 1 : (y + 1) * (step + 1)])
        if filtering:
            for i in range(step):
                left = line[i - samples] if i >= samples else 0
                corner = above[i - samples] if i >= samples else 0
                if filtering == 1:
                    guess = left
                elif filtering == 2:
                    guess = above[i]
                elif filtering == 3:
                    guess = (left + above[i]) // 2
                else:
                    near = left + above[i] - corner
                    guess = min((left, above[i], corner), key=lambda v, near=near: abs(near - v))
                line[i] = (line[i] + guess) & 255
        above = line
        rows.append(bytes(line))
    return samples, rows


@needs_browser
def test_a_browser_draws_every_part(page: Path) -> None:
    """The document that the browser made of the page holds each part, and nothing was refused or missed."""
    seen = look(page, "--dump-dom")
    complaints = [line for line in seen.stderr.splitlines() if "CONSOLE" in line]
    assert not complaints
    titles = re.findall(r"<h2>(.*?)</h2>", seen.stdout)
    assert titles == [
        "Accuracy by epoch", "Loss by epoch", "Time of the trainer", "Time of preparing minibatches",
        "Hits of the index tables", "Bandwidth over time", "Sizes of requests", "Latency of requests",
        "Memory against the budget", "The run", "The store",
    ]  # fmt: skip

    shapes = Counter(re.findall(r"<(svg|path|rect)\b", seen.stdout))
    assert shapes["svg"] >= 9 and shapes["path"] >= 6 and shapes["rect"] >= 30


@needs_browser
@pytest.mark.parametrize("width", [1000, 420])
def test_a_browser_paints_it_within_the_window(page: Path, width: int) -> None:
    """Curves, bars and the limits are painted, on a white ground, and nothing runs out of the window."""
    picture = page.parent / f"{width}.png"
    look(page, f"--window-size={width},4200", f"--screenshot={picture}", "--blink-settings=preferredColorScheme=1")
    samples, rows = pixels(picture.read_bytes())
    count: Counter[tuple[int, ...]] = Counter()
    edge: Counter[tuple[int, ...]] = Counter()
    for row in rows:
        line = [tuple(row[i : i + 3]) for i in range(0, len(row), samples)]
        count.update(line)
        edge.update(line[-6:])
    assert count.most_common(1)[0][0] == WHITE
    for colour in SERIES.values():
        assert count[colour] > 200, colour
    # The limits are thin and blended with the ground: what is red and no other colour of the page.
    red = sum(n for (r, g, b), n in count.items() if r - max(g, b) > 60 and abs(g - b) < 20)
    assert red > 20
    assert set(edge) == {WHITE}
