"""Train on a graph eight times larger than the memory it may use, and show where the time goes.

    make demo        (or: python docs/demo/demo.py FOLDER)

Makes a graph with planted communities, trains GraphSAGE on it in Go under a memory budget of one
eighth of the data, trains a perceptron that sees no edges for comparison, reads one more epoch
through the Python loader, and a few minibatches of it without hyperbatches. Every figure is
measured in this run: bytes against the least that must be read, bandwidth against the device's own,
peak memory of the process against the budget. The table is also written to FOLDER/report.txt,
report.json and report.svg, and the training run as a page to FOLDER/training.html.

Each step is a process of its own, so that its peak memory is its own; this one imports no library.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from report import as_svg, as_text

HERE = Path(__file__).parent
FANOUT, BATCH, EPOCHS = "10,5", 200, 2
MIB = 1 << 20


def step(title: str, *command: str | Path) -> dict[str, Any]:
    """Run one step; its JSON, with what the system says about the process under "process"."""
    print(f"== {title}\n   $ {' '.join([Path(command[0]).name, *map(str, command[1:])])}", file=sys.stderr)
    start = time.perf_counter()
    process = subprocess.Popen([str(c) for c in command], stdout=subprocess.PIPE)
    assert process.stdout is not None
    out = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"demo: {title}: status {process.returncode}")
    document: dict[str, Any] = json.loads(out)
    document["process"] = {
        "seconds": time.perf_counter() - start,
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "peak_bytes": usage.ru_maxrss * 1024,
    }
    return document


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, help="where the store and the report go")
    parser.add_argument("--num-nodes", type=int, default=1_000_000)
    parser.add_argument("--avg-degree", type=int, default=20)
    parser.add_argument("--num-features", type=int, default=128)
    options = parser.parse_args()
    folder: Path = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    goagnes = Path(sys.executable).parent / "goagnes"
    if not goagnes.exists():
        goagnes = Path(shutil.which("goagnes") or "goagnes")
    store = folder / "community"

    build = step(
        "a graph with planted communities, written as a store",
        goagnes, "generate", store, "--kind", "community", "--num-nodes", str(options.num_nodes),
        "--avg-degree", str(options.avg_degree), "--num-features", str(options.num_features), "--num-classes", "16",
        "--seed", "0", "--overwrite", "--json",
    )  # fmt: skip
    info = step("what the store says about itself", goagnes, "info", store, "--json")
    data = info["num_nodes"] * options.num_features * 4 + info["num_edges"] * 4
    memory = data // 8 // MIB * MIB
    budget = ["--memory", f"{memory // MIB}MiB"]
    common = [
        "--layers",
        "2",
        "--hidden",
        "128",
        "--epochs",
        str(EPOCHS),
        "--batch-size",
        str(BATCH),
        "--seed",
        "0",
        *budget,
        "--json",
    ]
    sampled = ["--num-neighbors", FANOUT, "--eval-neighbors", FANOUT]
    sage = step(
        f"GraphSAGE under {memory // MIB} MiB",
        goagnes, "train", store, "--model", "sage", *sampled, "--save", folder / "sage.npz", "--calibrate", *common,
    )  # fmt: skip
    mlp = step("a perceptron that sees no edges", goagnes, "train", store, "--model", "mlp", *common)
    epoch = step(
        "one epoch through the Python loader",
        sys.executable, HERE / "epoch.py", store, f"{memory // MIB}MiB", FANOUT, str(BATCH),
    )  # fmt: skip

    loader = [
        "--num-neighbors",
        FANOUT,
        "--input-nodes",
        "train",
        "--batch-size",
        str(BATCH),
        "--shuffle",
        "--seed",
        "0",
    ]
    alone = step(
        "ten minibatches of that epoch, each prepared alone",
        goagnes, "bench", "prepare", store, *loader, "--mode", "agnes-no", "--max-batches", "10", *budget, "--json",
    )  # fmt: skip

    settings = {"fanout": FANOUT, "batch_size": BATCH, "memory_bytes": memory, "data_bytes": data}
    result = {
        "settings": settings,
        "machine": {"processors": os.cpu_count(), "python": sys.version.split()[0]},
        "build": build, "info": info, "sage": sage, "mlp": mlp, "epoch": epoch, "alone": alone,
    }  # fmt: skip
    text = as_text(result)
    (folder / "report.txt").write_text(text + "\n")
    (folder / "report.svg").write_text(as_svg(text))
    (folder / "report.json").write_text(json.dumps(result, indent=2) + "\n")
    (folder / "training.json").write_text(json.dumps(sage, indent=2) + "\n")
    step(
        "the training run as a page",
        goagnes,
        "report",
        folder / "training.json",
        "--out",
        folder / "training.html",
        "--json",
    )
    print(text)
    print(f"\nThe training run as a page: {folder / 'training.html'}")


if __name__ == "__main__":
    main()
