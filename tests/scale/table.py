"""Prints the figures of a run of run.sh as one table."""

import json
import pathlib
import sys


def main() -> None:
    folder, cached = pathlib.Path(sys.argv[1]), sys.argv[2]

    def load(name: str) -> dict:
        return json.loads((folder / name).read_text())

    build = load("build.json")
    moved = build["bytes_read"] + build["bytes_written"]
    print(
        f"build            {build['seconds']:.1f} s, {moved / build['input_bytes']:.2f} x the input moved, "
        f"{moved / build['seconds'] / 1e6:.0f} MB/s, {build['peak_memory_planned'] / 2**20:.0f} MiB planned"
    )
    print(f"verify           {len(load('verify.json')['findings'] or [])} findings")
    for kind in ("edge-ids", "no-edge-ids"):
        bench = load(f"bench-{kind}.json")
        stats = bench["stats"]
        for epoch in bench["epochs"]:
            n = epoch["minibatches"]
            print(
                f"{kind:<16} epoch {epoch['epoch']}: {1e3 * epoch['seconds'] / n:.1f} ms a minibatch, first after "
                f"{epoch['first_seconds']:.1f} s, {epoch['nodes'] / n:.0f} nodes, {epoch['edges'] / n:.0f} edges"
            )
        moved, system = stats["bytes_read"] + stats["bytes_written"], bench["device_read"] + bench["device_write"]
        print(
            f"{'':<16} {moved / stats['minibatches'] / 1e6:.1f} MB a minibatch moved, {stats['io_ratio']:.2f} x "
            f"the least possible; the system counts {100 * (system / moved - 1):+.2f} %"
        )
        print(
            f"{'':<16} budget {bench['memory'] / 2**20:.0f} MiB, used {stats['peak_memory'] / 2**20:.0f}, "
            f"process {bench['peak_rss'] / 2**20:.0f}"
        )
    print(f"page cache       {cached} bytes of the store")


if __name__ == "__main__":
    main()
