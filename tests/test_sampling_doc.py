"""The known answers of docs/sampling.md are what the plain sampler computes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from oracle.sampler import Oracle, draw, halves, permutation, philox

DOC = Path(__file__).parent.parent / "docs" / "sampling.md"


def answers(name: str) -> list[dict]:
    """The rows of the block ```json NAME of the page."""
    found = re.findall(rf"^```json {name}\n(.*?)^```", DOC.read_text(), re.DOTALL | re.MULTILINE)
    assert len(found) == 1, f"docs/sampling.md must hold one block {name}, found {len(found)}"
    rows = json.loads(found[0])
    assert rows
    return rows


def words(row: list[str]) -> tuple[int, ...]:
    return tuple(int(word, 16) for word in row)


def minibatch_key(row: dict) -> tuple[int, int]:
    return philox(halves(row["seed"]), (*halves(row["minibatch"]), row["epoch"], 2))[:2]


def test_generator_is_the_published_one():
    """Known answers of Random123 (kat_vectors, philox4x32 10), typed here once more."""
    ones, pi = 0xFFFFFFFF, (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344)
    assert philox((0, 0), (0, 0, 0, 0)) == (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)
    assert philox((ones, ones), (ones,) * 4) == (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)
    assert philox((0xA4093822, 0x299F31D0), pi) == (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)


@pytest.mark.parametrize("row", answers("philox"))
def test_philox(row):
    assert philox(words(row["key"]), words(row["counter"])) == words(row["words"])


@pytest.mark.parametrize("row", answers("minibatch_key"))
def test_minibatch_key(row):
    assert minibatch_key(row) == words(row["key"])


@pytest.mark.parametrize("row", answers("order"))
def test_order(row):
    order = permutation(row["seed"], row["epoch"], row["n"])
    assert order[:8].tolist() == row["first"]
    assert np.array_equal(np.sort(order), np.arange(row["n"]))


@pytest.mark.parametrize("row", answers("draw"))
def test_draw(row):
    chosen = draw(minibatch_key(row), row["node"], row["position"], row["hop"], row["degree"], row["k"])
    assert chosen == row["chosen"]
    if 0 <= row["k"] < row["degree"]:
        assert len(set(chosen)) == row["k"]


def test_minibatch():
    edges = np.array([[(v + j) % 12 for v in range(12) for j in range(1, 6)], np.repeat(np.arange(12), 5)])
    got = list(Oracle(edges, 12).epoch([2, 2], [3, 7, 3, 0], 3, 42, 0, shuffle=True))
    want = answers("minibatch")
    assert len(got) == len(want)
    for batch, row in zip(got, want, strict=True):
        assert batch.edge_index.tolist() == [row["source"], row["target"]]
        for name in ("n_id", "e_id", "input_id"):
            assert getattr(batch, name).tolist() == row[name], name
        assert batch.num_sampled_nodes == row["num_sampled_nodes"]
        assert batch.num_sampled_edges == row["num_sampled_edges"]
        assert np.array_equal(batch.n_id[batch.edge_index], edges[:, batch.e_id])
