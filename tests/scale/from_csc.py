"""Turns a graph dumped as flat files into what `goagnes build` reads.

    python from_csc.py DUMP OUT

DUMP holds ptr.bin (uint32, nodes + 1), col.bin (uint32, the in-neighbours of
node 0, then of node 1, ...), train.bin (uint32, seeds in order) and feat.bin
(float32, nodes x FEATURES). OUT gets edge_index.npy (2, E) uint32, whose edges
are in the dump's order, x.npy and train.npy. Needs numpy and 4 bytes an edge of
memory.
"""

import pathlib
import shutil
import sys

import numpy as np


def main() -> None:
    dump, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    ptr = np.fromfile(dump / "ptr.bin", np.uint32).astype(np.int64)
    nodes, edges = len(ptr) - 1, int(ptr[-1])
    index = np.lib.format.open_memmap(out / "edge_index.npy", "w+", np.uint32, (2, edges))
    index[0] = np.memmap(dump / "col.bin", np.uint32, "r")
    index[1] = np.repeat(np.arange(nodes, dtype=np.uint32), np.diff(ptr))
    index.flush()
    np.save(out / "train.npy", np.fromfile(dump / "train.bin", np.uint32).astype(np.int64))
    rows = (dump / "feat.bin").stat().st_size // (4 * nodes)
    with open(out / "x.npy", "wb") as x, open(dump / "feat.bin", "rb") as raw:
        np.lib.format.write_array_header_1_0(x, {"descr": "<f4", "fortran_order": False, "shape": (nodes, rows)})
        shutil.copyfileobj(raw, x, 1 << 24)
    print(f"{nodes} nodes, {edges} edges, {rows} features")


if __name__ == "__main__":
    main()
