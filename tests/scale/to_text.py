"""Writes an edge_index.npy of shape (2, E) as a SNAP edge list: source, tab, target."""

import sys

import numpy as np


def main() -> None:
    edges = np.load(sys.argv[1], mmap_mode="r")
    with open(sys.argv[2], "w") as out:
        out.write("# Directed graph\n# FromNodeId\tToNodeId\n")
        for first in range(0, edges.shape[1], 1 << 20):
            sources, targets = edges[:, first : first + (1 << 20)].tolist()
            out.write("".join(f"{u}\t{v}\n" for u, v in zip(sources, targets, strict=True)))


if __name__ == "__main__":
    main()
