"""The loader's draws are uniform and independent (docs/sampling.md, 7); see oracle/chisquare.py.

One epoch over many nodes of equal in-degree is as many trials: a node's draws are independent of
every other's. Edge ids are laid out so that e_id % degree is the position in the adjacency list.
"""

from __future__ import annotations

import numpy as np
import pytest
from oracle import chisquare

import goagnes as ga

pytestmark = pytest.mark.slow


def build(path, nodes: int, degree: int, block_size: str = "64KiB"):
    """Nodes 0..nodes-1, each with `degree` in-edges from its own neighbours, which have none."""
    source = nodes + np.arange(nodes * degree, dtype=np.int64)
    target = np.arange(nodes, dtype=np.int64).repeat(degree)
    total = nodes * (1 + degree)
    ga.build(str(path), edge_index=np.stack([source, target]), num_nodes=total, block_size=block_size).close()
    return ga.open(str(path))


def positions(store, nodes: int, degree: int, k: int, epochs: int = 1, seed: int = 11, batch_size: int = 500):
    """The chosen positions, one row per node and epoch: (epochs, nodes, k)."""
    rows = []
    with ga.NeighborLoader(
        store, [k], input_nodes=np.arange(nodes), batch_size=batch_size, seed=seed, output="numpy"
    ) as loader:
        for _ in range(epochs):
            rows.append(np.concatenate([np.asarray(batch.e_id) for batch in loader]).reshape(nodes, k))
    chosen = np.stack(rows)
    assert (chosen // degree == np.arange(nodes)[None, :, None]).all()
    return chosen % degree


@pytest.mark.parametrize(("degree", "k"), [(20, 10), (11, 10), (100, 3), (64, 1)])
def test_marginals(tmp_path, degree, k):
    nodes = 20_000
    with build(tmp_path / "s", nodes, degree) as store:
        chosen = positions(store, nodes, degree, k)
    assert chisquare.marginals(chosen[0], degree) > chisquare.ALPHA


@pytest.mark.parametrize(("degree", "k"), [(4, 2), (5, 3), (6, 3), (6, 5), (2, 1)])
def test_all_subsets(tmp_path, degree, k):
    nodes = 20_000
    with build(tmp_path / "s", nodes, degree) as store:
        chosen = positions(store, nodes, degree, k)
    assert chisquare.subsets(chosen[0], degree) > chisquare.ALPHA


def test_nodes_minibatches_and_epochs_are_independent(tmp_path):
    nodes, degree, k, batch_size = 20_000, 20, 10, 500
    with build(tmp_path / "s", nodes, degree) as store:
        one, two = positions(store, nodes, degree, k, epochs=2, batch_size=batch_size)
        other_seed = positions(store, nodes, degree, k, seed=12)[0]
        again = positions(store, nodes, degree, k)[0]
    assert np.array_equal(one, again)  # the same seed, the same draws
    by_batch = one.reshape(-1, batch_size, k)
    pairs = {
        "neighbouring nodes": (one[::2], one[1::2]),
        "the same place in two minibatches": (by_batch[::2].reshape(-1, k), by_batch[1::2].reshape(-1, k)),
        "epochs": (one, two),
        "seeds": (one, other_seed),
    }
    for what, (first, second) in pairs.items():
        assert chisquare.independence(first, second, degree) > chisquare.ALPHA, what


def test_hops_are_independent(tmp_path):
    """Node v is expanded at hop 0 as a seed, and at hop 1 as the only neighbour of node n + v."""
    nodes, degree, k = 10_000, 20, 10
    source = 2 * nodes + np.arange(nodes * degree, dtype=np.int64)
    edges = np.stack([source, np.arange(nodes, dtype=np.int64).repeat(degree)])
    chain = np.stack([np.arange(nodes), nodes + np.arange(nodes)])
    edges = np.concatenate([edges, chain], axis=1)
    ga.build(str(tmp_path / "s"), edge_index=edges, num_nodes=nodes * (2 + degree)).close()
    with ga.open(str(tmp_path / "s")) as store:
        rows = []
        for first, fanouts in ((0, [k]), (nodes, [1, k])):
            ids = np.arange(first, first + nodes)
            with ga.NeighborLoader(store, fanouts, ids, batch_size=500, seed=3, output="numpy") as loader:
                e_id = np.concatenate([np.asarray(batch.e_id) for batch in loader])
            rows.append(e_id[e_id < nodes * degree].reshape(nodes, k) % degree)
    for chosen in rows:
        assert chisquare.marginals(chosen, degree) > chisquare.ALPHA
    assert chisquare.independence(rows[0], rows[1], degree) > chisquare.ALPHA


def test_repeated_seeds_are_independent(tmp_path):
    nodes, degree, k = 10_000, 20, 10
    with build(tmp_path / "s", nodes, degree) as store:
        twice = np.arange(nodes).repeat(2)
        with ga.NeighborLoader(store, [k], twice, batch_size=500, seed=4, output="numpy") as loader:
            e_id = np.concatenate([np.asarray(batch.e_id) for batch in loader])
    chosen = e_id.reshape(nodes, 2, k) % degree
    assert chisquare.independence(chosen[:, 0], chosen[:, 1], degree) > chisquare.ALPHA


def test_hub_over_many_blocks_is_uniform_over_position(tmp_path):
    """9,000 in-edges over more than three 4 KiB blocks; an epoch has one trial for each occurrence."""
    degree, k, trials = 9_000, 30, 20_000
    source = 1 + np.arange(degree, dtype=np.int64)
    edges = np.stack([source, np.zeros(degree, np.int64)])
    ga.build(str(tmp_path / "s"), edge_index=edges, num_nodes=degree + 1, block_size="4KiB").close()
    with ga.open(str(tmp_path / "s")) as store:
        seeds = np.zeros(trials, np.int64)
        with ga.NeighborLoader(store, [k], seeds, batch_size=500, seed=6, output="numpy") as loader:
            chosen = np.concatenate([np.asarray(batch.e_id) for batch in loader]).reshape(trials, k)
    assert chisquare.marginals(chosen, degree) > chisquare.ALPHA
    quarter = np.sort(chosen * 4 // degree, axis=1)  # which quarter of the hub: one per block or so
    counts = np.bincount(quarter.ravel(), minlength=4)
    assert (abs(counts - trials * k / 4) < 6 * np.sqrt(trials * k * 0.1875)).all(), counts
