"""The least that an epoch must read: the distinct 4 KiB pages that it needs, each once.

Counted from the minibatches themselves and the files of the store, with numpy alone; nothing here
knows how the engine plans its reads. A page of `node.x` is needed if it holds a byte of a sampled
node's row, a page of `graph` if it holds a byte of a chosen neighbour's slot.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

PAGE = 4096
_DTYPES = {"bool": "u1", "bfloat16": "u2"}


class LowerBound:
    """Collects minibatches by add(n_id, e_id); bytes() is the bound so far."""

    def __init__(self, store: str | Path) -> None:
        folder = Path(store)
        manifest = (folder / "MANIFEST").read_bytes()
        length = int.from_bytes(manifest[16:24], "little")
        body = json.loads(manifest[PAGE : PAGE + length])
        self._sections = {section["name"]: section for section in body["sections"]}
        self._folder = folder
        num_nodes, block_size = body["num_nodes"], body["settings"]["block_size"]

        self._internal = self._array("node.internal")  # absent where internal ids are the original ones
        x = self._sections["node.x"]
        self._stride = (
            int(np.prod(x["row_shape"], dtype=np.int64)) * np.dtype(_DTYPES.get(x["dtype"], x["dtype"])).itemsize
        )
        self._x_pages = np.zeros(-(-x["bytes"] // PAGE) + 1, bool)

        # Slot of a CSC position: block by the object index table, byte by the block's own header.
        index = np.fromfile(folder / self._sections["graph.index"]["file"], np.uint64)
        index = index[: self._sections["graph.index"]["bytes"] // 8].reshape(-1, 2)
        self._first_edge = index[:-1, 1].astype(np.int64)
        graph = np.memmap(folder / self._sections["graph"]["file"], np.uint8, "r")
        blocks = graph[: self._sections["graph"]["bytes"]].reshape(-1, block_size)
        payload = blocks[:, 28:32].copy().view(np.uint32)[:, 0].astype(np.int64)
        self._payload = payload + np.arange(len(blocks)) * block_size
        self._bits = max(8, (num_nodes - 1).bit_length())
        self._graph_pages = np.zeros(self._sections["graph"]["bytes"] // PAGE + 1, bool)
        edge_ids = self._array("edge.id")
        self._position = np.empty(body["num_edges"], np.uint32 if body["num_edges"] < 2**32 else np.uint64)
        self._position[edge_ids] = np.arange(len(edge_ids), dtype=self._position.dtype)

    def _array(self, name: str) -> np.ndarray | None:
        section = self._sections.get(name)
        if section is None:
            return None
        return np.fromfile(self._folder / section["file"], section["dtype"], section["rows"])

    def add(self, n_id: np.ndarray, e_id: np.ndarray) -> None:
        """Count one minibatch: original ids of its nodes, ids of its edges."""
        rows = n_id if self._internal is None else self._internal[n_id].astype(np.int64)
        begin = rows * self._stride
        _mark(self._x_pages, begin, begin + self._stride)
        position = self._position[e_id].astype(np.int64)
        block = np.searchsorted(self._first_edge, position, side="right") - 1
        bit = (position - self._first_edge[block]) * self._bits
        begin = self._payload[block] + bit // 8
        _mark(self._graph_pages, begin, self._payload[block] + (bit + self._bits + 7) // 8)

    def bytes(self) -> int:
        return PAGE * (int(self._x_pages.sum()) + int(self._graph_pages.sum()))


def _mark(pages: np.ndarray, begin: np.ndarray, end: np.ndarray) -> None:
    """Mark the pages of the byte ranges [begin, end)."""
    first, last = begin // PAGE, (end - 1) // PAGE
    for step in range(int((last - first).max(initial=0)) + 1):
        pages[np.minimum(first + step, last)] = True
