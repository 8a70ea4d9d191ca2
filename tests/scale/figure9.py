"""Prints the runs of figure9.sh as markdown tables."""

import json
import pathlib
import sys


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    runs = {path.stem: json.loads(path.read_text()) for path in folder.glob("*.json")}
    whole = max(run["epochs"][0]["minibatches"] for name, run in runs.items() if not name.startswith("build-"))
    scaled = False
    for kind, head in (("mode", "mode"), ("block", "block size, KiB"), ("hyperbatch", "hyperbatch, minibatches")):
        print(f"\n| {head} | s an epoch | ms a minibatch | MB a minibatch moved | graph blocks | feature blocks |")
        print("|---|---|---|---|---|---|")
        rows = [(name.split("-", 1)[1], run) for name, run in runs.items() if name.startswith(kind + "-")]
        for name, run in sorted(rows, key=lambda row: (int(row[0]) if row[0].isdigit() else 0, row[0])):
            epoch, stats = run["epochs"][0], run["stats"]
            each = epoch["seconds"] / epoch["minibatches"]
            mark = "" if epoch["minibatches"] == whole else "*"
            scaled = scaled or bool(mark)
            # Counters may be ahead of what was taken: divide by what was prepared.
            prepared = stats["minibatches"]
            factor = whole / prepared
            moved = (stats["bytes_read"] + stats["bytes_written"]) / prepared / 1e6
            print(
                f"| {name}{mark} | {each * whole:.2f} | {each * 1e3:.1f} | {moved:.1f} "
                f"| {stats['graph_blocks_read'] * factor:.0f} | {stats['feature_blocks_read'] * factor:.0f} |"
            )
    if scaled:
        print(f"\n\\* the first minibatches alone, scaled to {whole}")


if __name__ == "__main__":
    main()
