"""The steps of memory.sh, each in a memory cgroup of its own."""

import argparse
import os
import shutil
import signal
import sys
import time
from pathlib import Path

MIB = 1 << 20
PROGRAM = 64 * MIB  # what the program may take beside its budget
LEAST = 48 * MIB

parser = argparse.ArgumentParser()
parser.add_argument("dir", type=Path)
parser.add_argument("--paper", action="store_true")
parser.add_argument("--only", choices=("float32", "float16"))
parser.add_argument("--share", type=int, choices=(8, 16, 32))
parser.add_argument("--keep", action="store_true")
options = parser.parse_args()
here = options.dir
failed = False


class Group:
    """A memory cgroup of version 1 or 2, or none where there is no right to one."""

    def __init__(self, limit: int) -> None:
        name = f"goagnes-{os.getpid()}-{time.monotonic_ns()}"
        self.path = None
        for root, knob, self.peak_file in (
            (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes", "memory.max_usage_in_bytes"),
            (Path("/sys/fs/cgroup"), "memory.max", "memory.peak"),
        ):
            try:
                path = root / name
                path.mkdir()
            except OSError:
                continue
            try:
                (path / knob).write_text(str(limit))
                self.path = path
                return
            except OSError:
                path.rmdir()

    def enter(self) -> None:
        if self.path:
            (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def close(self) -> int | None:
        """Removes the group; returns its peak in bytes, where the system tells."""
        if not self.path:
            return None
        try:
            peak = int((self.path / self.peak_file).read_text())
        except OSError:
            peak = None
        self.path.rmdir()
        return peak


def mib(n: int | None) -> str:
    return "-" if n is None else f"{n / MIB:.1f}"


def step(data: str, verb: str, share: str, budget: int, limit: int, *args: str) -> bool:
    """Runs the program and prints a line."""
    global failed
    group = Group(limit)
    log = here / "memory.log"
    start = time.monotonic()
    pid = os.fork()
    if pid == 0:
        try:
            group.enter()
            with log.open("w") as f:
                os.dup2(f.fileno(), 1)
                os.dup2(f.fileno(), 2)
            os.execv(here / "goagnes", [str(here / "goagnes"), *args])
        finally:
            os._exit(127)
    _, status, usage = os.wait4(pid, 0)
    seconds = time.monotonic() - start
    peak = group.close()
    rss = usage.ru_maxrss << 10
    if os.WIFSIGNALED(status):
        outcome = "killed by " + signal.Signals(os.WTERMSIG(status)).name
    elif os.WEXITSTATUS(status):
        lines = log.read_text().strip().splitlines()
        outcome = f"exit {os.WEXITSTATUS(status)}: {lines[-1] if lines else ''}"
    elif rss > limit:
        outcome = f"resident beyond {mib(limit)} MiB"
    else:
        outcome = "done"
    failed = failed or outcome != "done"
    limited = "" if group.path else " (no right to limit memory here)"
    print(
        f"{data:10}{verb:10}{share:>7}{mib(budget):>9}{mib(rss):>9}{mib(peak):>9}{seconds:>9.1f}  {outcome}{limited}",
        flush=True,
    )
    for line in log.read_text().splitlines():
        if "order" in line and "original" in line:  # the build says so where an order's tables do not fit
            print(f"{'':12}{line.strip()}", flush=True)
    return outcome == "done"


def header() -> None:
    print(f"{'data':10}{'verb':10}{'share':>7}{'budget':>9}{'VmHWM':>9}{'cgroup':>9}{'seconds':>9}  MiB", flush=True)


def remove(*paths: Path) -> None:
    if not options.keep:
        for p in paths:
            shutil.rmtree(p, ignore_errors=True)


class Verbs:
    """The program's verbs on one set of data, within one budget and one limit, in bytes."""

    def __init__(self, data: str, share: str, budget: int, limit: int, **paths: Path) -> None:
        self.data, self.share, self.budget, self.limit, self.paths = data, share, budget, limit, paths

    def __call__(self, command: str, *more: str) -> bool:
        """Runs a command whose words in braces are paths; its verb is the row's name."""
        words = [w.format(**self.paths) for w in command.split()]
        verb = "prepare" if words[0] == "bench" else words[0]
        return step(self.data, verb, self.share, self.budget, self.limit, *words, *more)


def table(dtype: str, features: int) -> None:
    scale = int(os.environ.get("SCALE", "22"))
    nodes, edges, row = 1 << scale, 16 << scale, 512
    total = nodes * row + 4 * edges
    paths = {name: here / f"{name}-{scale}-{dtype}" for name in ("raw", "store", "export")}
    budget = {k: max(total // k, LEAST) for k in (8, 16, 32)}
    if not (paths["raw"] / "edge_index.npy").exists():  # it takes no budget: the least limit of all
        run = Verbs(dtype, "D/32", budget[32], budget[32] + PROGRAM, **paths)
        shape = f"--num-nodes {nodes} --avg-degree 16 --num-features {features} --feature-dtype {dtype}"
        run(f"generate --raw {{raw}} --kind rmat {shape}")
    for k, batch, hidden in ((8, 1000, 256), (16, 1000, 64), (32, 200, 64)):
        if options.share not in (None, k):
            continue
        run = Verbs(dtype, f"D/{k}", budget[k], budget[k] + PROGRAM, **paths)
        memory = ("--memory", str(budget[k]))
        loader = f"--num-neighbors 10,10,10 --batch-size {batch} --seed 0"
        splits = " ".join(f"--split {s}={{raw}}/split_{s}.npy" for s in ("train", "val", "test"))
        arrays = "--edge-index {raw}/edge_index.npy --x {raw}/x.npy --y {raw}/y.npy"
        if not run(f"build {{store}} {arrays} {splits} --overwrite", *memory):
            continue
        run("verify {store}", *memory)
        run(f"bench prepare {{store}} --input-nodes train --shuffle {loader}", *memory)
        run(f"train {{store}} --hidden {hidden} --epochs 1 --eval-neighbors 10,10,10 {loader}", *memory)
        run(f"export {{store}} {{export}} --input-nodes train --shuffle --max-batches 20 --overwrite {loader}", *memory)
        remove(paths["export"])
    remove(paths["store"])


def paper() -> None:
    nodes = int(os.environ.get("NODES", "64000000"))
    limit = max(nodes * 365 // 64, LEAST + PROGRAM)
    store = here / "store-paper"
    run = Verbs("paper", "5.7 B/n", limit - PROGRAM, limit, store=store)
    memory = ("--memory", str(limit - PROGRAM))
    shape = f"--num-nodes {nodes} --avg-degree 4.6875 --num-features 16 --feature-dtype float16"
    if run(f"generate {{store}} --kind rmat {shape} --overwrite", *memory):
        run("verify {store}", *memory)
        loader = f"--num-neighbors 10,10,10 --batch-size 200 --seed 0 --max-batches {nodes // 100 // 200}"
        run(f"bench prepare {{store}} --input-nodes train --shuffle {loader}", *memory)
    remove(store)


header()
if options.paper:
    paper()
else:
    for dtype, features in (("float32", 128), ("float16", 256)):
        if options.only in (None, dtype):
            table(dtype, features)
sys.exit(1 if failed else 0)
