"""Chi-square tests of sampled subsets, with nothing but numpy and math.

The counts c_i of each of d positions over T trials of k of d without replacement are negatively
correlated, so Pearson's statistic is scaled: sum (c_i - Tk/d)^2 / (T (k/d)(1-k/d)) * (d-1)/d follows
chi-square with d-1 degrees of freedom.
"""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np

ALPHA = 1e-6  # significance of each test


def upper_tail(statistic: float, freedom: int) -> float:
    """P(X > statistic) for X chi-square: the regularised incomplete gamma Q(freedom/2, statistic/2)."""
    a, x = freedom / 2, statistic / 2
    if x <= 0:
        return 1.0
    scale = math.exp(a * math.log(x) - x - math.lgamma(a))
    if x < a + 1:  # power series of P
        term = total = 1 / a
        n = a
        while abs(term) > 1e-17 * abs(total):
            n += 1
            term *= x / n
            total += term
        return 1 - scale * total
    # Continued fraction of Q, by Lentz' method.
    tiny = 1e-300
    b = x + 1 - a
    c, d = 1 / tiny, 1 / b
    fraction = d
    for i in range(1, 100_000):
        step = -i * (i - a)
        b += 2
        d = 1 / (step * d + b or tiny)
        c = b + step / c or tiny
        fraction *= d * c
        if abs(d * c - 1) < 1e-16:
            break
    return scale * fraction


def marginals(chosen: np.ndarray, degree: int) -> float:
    """The p-value that every position is included equally often; chosen is (trials, k)."""
    trials, k = chosen.shape
    counts = np.bincount(chosen.ravel(), minlength=degree)
    share = k / degree
    statistic = ((counts - trials * share) ** 2).sum() / (trials * share * (1 - share)) * (degree - 1) / degree
    return upper_tail(float(statistic), degree - 1)


def subsets(chosen: np.ndarray, degree: int) -> float:
    """The p-value that all subsets are equally likely; rows of chosen are ascending."""
    trials, k = chosen.shape
    codes = (1 << chosen).sum(axis=1)
    every = [sum(1 << i for i in subset) for subset in combinations(range(degree), k)]
    counts = np.array([(codes == code).sum() for code in every])
    assert counts.sum() == trials, "a draw is no subset of the positions"
    expected = trials / len(every)
    return upper_tail(float(((counts - expected) ** 2).sum() / expected), len(every) - 1)


def independence(first: np.ndarray, second: np.ndarray, degree: int) -> float:
    """The p-value that two series of draws are independent.

    By the size of the overlap of each pair of draws, which is hypergeometric if they are.
    """
    trials, k = first.shape
    member = np.zeros((2, trials, degree), bool)
    for which, chosen in enumerate((first, second)):
        member[which, np.arange(trials)[:, None], chosen] = True
    overlap = (member[0] & member[1]).sum(axis=1)
    sizes = range(max(0, 2 * k - degree), k + 1)
    total = math.comb(degree, k)
    share = np.array([math.comb(k, s) * math.comb(degree - k, k - s) / total for s in sizes])
    counts = np.array([(overlap == s).sum() for s in sizes], float)
    # Sizes too rare for the approximation are put together with their neighbour.
    while len(share) > 2 and share[-1] * trials < 10:
        share[-2] += share[-1]
        counts[-2] += counts[-1]
        share, counts = share[:-1], counts[:-1]
    while len(share) > 2 and share[0] * trials < 10:
        share[1] += share[0]
        counts[1] += counts[0]
        share, counts = share[1:], counts[1:]
    statistic = ((counts - trials * share) ** 2 / (trials * share)).sum()
    return upper_tail(float(statistic), len(share) - 1)
