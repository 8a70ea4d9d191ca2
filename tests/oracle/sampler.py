"""A plain sampler written from docs/sampling.md alone, to check the engine against.

It reads the raw edges (an array or a file), never a store, and shares no code with the engine.
Slow on purpose: one node, one draw at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

Words = tuple[int, int, int, int]
M32 = 0xFFFFFFFF


def philox(key: tuple[int, int], counter: Words) -> Words:
    """Philox4x32-10 (Salmon et al., SC 2011; Random123)."""
    (k0, k1), (c0, c1, c2, c3) = key, counter
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (p1 >> 32) ^ c1 ^ k0, p1 & M32, (p0 >> 32) ^ c3 ^ k1, p0 & M32
        k0, k1 = (k0 + 0x9E3779B9) & M32, (k1 + 0xBB67AE85) & M32
    return c0, c1, c2, c3


def halves(value: int) -> tuple[int, int]:
    """The low and the high 32 bits of a 64-bit word."""
    return value & M32, value >> 32


def permutation(seed: int, epoch: int, n: int) -> np.ndarray:
    """The seed order of an epoch: a keyed Feistel permutation of [0, n)."""
    key = philox(halves(seed), (0, 0, epoch, 1))[:2]
    half = max(1, ((n - 1).bit_length() + 1) // 2)
    mask = (1 << half) - 1

    def encrypt(x: int) -> int:
        left, right = x >> half, x & mask
        for r in range(10):
            left, right = right, left ^ (philox(key, (right, r, 0, 0))[0] & mask)
        return left << half | right

    order = np.empty(n, np.int64)
    for i in range(n):
        x = encrypt(i)
        while x >= n:
            x = encrypt(x)
        order[i] = x
    return order


def draw(key: tuple[int, int], node: int, position: int, hop: int, degree: int, k: int) -> list[int]:
    """Positions chosen from an adjacency list of the given degree, ascending."""
    if k < 0 or degree <= k:
        return list(range(degree))
    words: list[int] = []

    def bounded(i: int, n: int) -> int:
        need = i + 1 if degree <= 4096 else 2 * i + 2
        while len(words) < need:
            counter = (node & M32, position, hop | (node >> 32) << 24, len(words) // 4)
            words.extend(philox(key, counter))
        if degree <= 4096:
            return (words[i] * n) >> 32
        return ((words[2 * i] | words[2 * i + 1] << 32) * n) >> 64

    chosen: set[int] = set()
    for i in range(k):
        j = degree - k + i
        t = bounded(i, j + 1)
        chosen.add(j if t in chosen else t)
    return sorted(chosen)


@dataclass
class Minibatch:
    """What one minibatch must be; names and meanings are PyG's."""

    n_id: np.ndarray
    edge_index: np.ndarray
    e_id: np.ndarray
    num_sampled_nodes: list[int]
    num_sampled_edges: list[int]
    input_id: np.ndarray
    x: np.ndarray | None
    y: np.ndarray | None


def read_edges(source) -> np.ndarray:
    """Edges as (2, E) int64: an array, an .npy file, or a file of lines with two ids."""
    if not isinstance(source, np.ndarray):
        text = not str(source).endswith(".npy")
        source = np.loadtxt(source, np.int64, ndmin=2, usecols=(0, 1)).T if text else np.load(source)
    return source.astype(np.int64)


class Oracle:
    """Minibatches of NeighborLoader(num_neighbors, batch_size, shuffle, drop_last, seed)."""

    def __init__(self, edges, num_nodes: int, x=None, y=None) -> None:
        self.source, self.target = read_edges(edges)
        self.num_nodes, self.x, self.y = num_nodes, x, y
        order = np.argsort(self.target, kind="stable")  # import order within a target
        bounds = np.searchsorted(self.target[order], np.arange(num_nodes + 1))
        self.adjacency = [order[bounds[v] : bounds[v + 1]] for v in range(num_nodes)]

    def epoch(
        self, num_neighbors, input_nodes, batch_size, seed, epoch=0, *, shuffle=False, drop_last=False
    ) -> Iterator[Minibatch]:
        """Yield the minibatches of one epoch; input_nodes is ids, a bool mask, or None for all."""
        nodes = np.ones(self.num_nodes, bool) if input_nodes is None else np.asarray(input_nodes)
        by_id = nodes.dtype == bool  # then input_id holds node ids
        nodes = np.flatnonzero(nodes) if nodes.dtype == bool else nodes
        order = permutation(seed, epoch, len(nodes)) if shuffle else np.arange(len(nodes))
        for m, first in enumerate(range(0, len(nodes), batch_size)):
            at = order[first : first + batch_size]
            if drop_last and len(at) < batch_size:
                return
            key = philox(halves(seed), (*halves(m), epoch, 2))[:2]
            yield self.minibatch(key, num_neighbors, nodes[at], nodes[at] if by_id else at)

    def minibatch(self, key, num_neighbors, seeds, input_id) -> Minibatch:
        """Expand the seeds hop by hop, as docs/sampling.md says."""
        n_id = [int(v) for v in seeds]
        local: dict[int, int] = {}
        for i, v in enumerate(n_id):
            local.setdefault(v, i)
        sources, targets, e_id, nodes_at, edges_at = [], [], [], [len(n_id)], []
        begin = end = 0
        for hop, k in enumerate(num_neighbors):
            begin, end, edges_before = end, len(n_id), len(e_id)
            for t in range(begin, end):
                node = n_id[t]
                position = t if hop == 0 and local[node] != t else 0  # a repeated seed
                slots = self.adjacency[node]
                for slot in draw(key, node, position, hop, len(slots), k):
                    neighbour = int(self.source[slots[slot]])
                    if neighbour not in local:
                        local[neighbour] = len(n_id)
                        n_id.append(neighbour)
                    sources.append(local[neighbour])
                    targets.append(t)
                    e_id.append(int(slots[slot]))
            nodes_at.append(len(n_id) - end)
            edges_at.append(len(e_id) - edges_before)
        ids, edge_index = np.array(n_id, np.int64), np.array([sources, targets], np.int64)
        x, y = (None if rows is None else rows[ids] for rows in (self.x, self.y))
        return Minibatch(ids, edge_index, np.array(e_id, np.int64), nodes_at, edges_at, input_id, x, y)
