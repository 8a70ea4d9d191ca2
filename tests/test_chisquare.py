"""The statistics themselves: against tabled values, right generators, and two sabotaged ones."""

from __future__ import annotations

import numpy as np
import pytest
from oracle import chisquare


@pytest.mark.parametrize(
    ("statistic", "freedom", "tail"),
    # NIST/SEMATECH e-Handbook of Statistical Methods, table 1.3.6.7.4, upper critical values.
    [(3.841, 1, 0.05), (18.307, 10, 0.05), (23.209, 10, 0.01), (43.773, 30, 0.05), (149.449, 100, 0.001)],
)
def test_upper_tail(statistic, freedom, tail):
    assert chisquare.upper_tail(statistic, freedom) == pytest.approx(tail, rel=2e-3)


def floyd(rng: np.random.Generator, trials: int, degree: int, k: int, off: int) -> np.ndarray:
    """k of degree by Floyd's method; off = 1 is right, off = 0 draws from [0, j) as some samplers do."""
    rows = np.empty((trials, k), np.int64)
    for row in rows:
        chosen: set[int] = set()
        for j in range(degree - k, degree):
            t = int(rng.integers(0, j + off))
            chosen.add(j if t in chosen else t)
        row[:] = sorted(chosen)
    return rows


def test_right_generator_passes():
    rng = np.random.default_rng(1)
    draws = floyd(rng, 20_000, 20, 10, 1)
    assert chisquare.marginals(draws, 20) > chisquare.ALPHA
    assert chisquare.independence(draws[::2], draws[1::2], 20) > chisquare.ALPHA
    assert chisquare.subsets(floyd(rng, 20_000, 6, 3, 1), 6) > chisquare.ALPHA


def test_floyd_off_by_one_is_rejected():
    rng = np.random.default_rng(2)
    assert chisquare.marginals(floyd(rng, 20_000, 20, 10, 0), 20) < chisquare.ALPHA
    assert chisquare.subsets(floyd(rng, 20_000, 6, 3, 0), 6) < chisquare.ALPHA


def test_reseeding_per_block_is_rejected():
    """A generator seeded anew at each visit draws the same positions for nodes of the same degree."""
    one = floyd(np.random.default_rng(3), 2_000, 20, 10, 1)
    again = floyd(np.random.default_rng(3), 2_000, 20, 10, 1)
    assert chisquare.independence(one, again, 20) < chisquare.ALPHA
