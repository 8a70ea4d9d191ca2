"""Training in Go."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from goagnes import _arguments, _tasks
from goagnes._arguments import fanouts, flag, integer, number, word
from goagnes._arrays import path_text
from goagnes._progress import ProgressArgument
from goagnes._store import Store, warn_page_cache


def train(
    store: Store,
    model: str = "sage",
    preset: str | None = None,
    save: str | os.PathLike[str] | None = None,
    *,
    layers: int | None = None,
    hidden: int | None = None,
    heads: int | None = None,
    output_heads: int | None = None,
    attention_dropout: float | None = None,
    residual: bool | None = None,
    dropout: float | None = None,
    lr: float | None = None,
    weight_decay: float | None = None,
    epochs: int | None = None,
    patience: int | None = None,
    batch_size: int | None = None,
    num_neighbors: Sequence[int] | None = None,
    eval_neighbors: Sequence[int] | None = None,
    eval_batch_size: int | None = None,
    monitor: str | None = None,
    normalize_features: str | None = None,
    seed: int = 0,
    num_threads: int | None = None,
    hyperbatch_size: int | None = None,
    mode: str = "agnes",
    calibrate: bool = False,
    progress: ProgressArgument = None,
) -> dict[str, Any]:
    """Trains a node classifier on the store's splits train, val and test, in Go.

    ``model`` is "sage", "gcn", "gat" or "mlp"; ``preset`` "citation" is the setting of
    the citation benchmarks, "shchur" that of the Amazon and Coauthor graphs. The weights
    kept are those of the epoch that is best by ``monitor``: "val_accuracy", the default,
    or "val_loss"; ``patience`` ends a run after so many epochs that were not better.
    ``normalize_features`` divides each row of x by its sum ("row"), by its Euclidean
    norm ("l2"), or not ("none", the default). ``heads``, ``output_heads``,
    ``attention_dropout`` and ``residual`` (linear skips) are of "gat": the heads of its
    layers lie side by side and share ``hidden``, those of the last one are averaged.
    What is None is the preset's or the trainer's default, which the result names. ``save`` writes the weights as .npz.

    Returns the report of ``goagnes train --json``: options, losses and accuracies of
    every epoch, ``test_accuracy`` (0 to 1, measured once, with the weights that were
    best on val), seconds by stage, memory and bytes moved; with ``calibrate`` also what
    the device's own reads give, which takes a second more. Written to a file as JSON,
    ``goagnes report`` draws it. Equal seeds give equal weights. Ctrl-C ends it.
    """
    if not isinstance(store, Store):
        raise TypeError(f"store is a {type(store).__name__}, not a goagnes.Store; use goagnes.open(path)")
    words = {"model": model, "preset": preset, "monitor": monitor, "normalize_features": normalize_features}
    counts = {
        "layers": layers,
        "hidden": hidden,
        "heads": heads,
        "output_heads": output_heads,
        "epochs": epochs,
        "patience": patience,
        "batch_size": batch_size,
        "eval_batch_size": eval_batch_size,
        "num_threads": num_threads,
        "hyperbatch_size": hyperbatch_size,
    }
    numbers = {"attention_dropout": attention_dropout, "dropout": dropout, "lr": lr, "weight_decay": weight_decay}
    flags = {"residual": residual, "calibrate": calibrate}
    lists = {"num_neighbors": num_neighbors, "eval_neighbors": eval_neighbors}
    request: dict[str, Any] = {"seed": _arguments.seed(seed), "mode": _arguments.mode(mode)}
    if save is not None:
        request["save"] = path_text("save", save)
    for options, check in (
        (words, word),
        (counts, _below_2_31),
        (numbers, number),
        (flags, flag),
        (lists, fanouts),
    ):
        request |= {name: check(name, value) for name, value in options.items() if value is not None}
    report = dict(_tasks.run("train", {"store": store.handle, **request}, progress=progress))
    warn_page_cache(store, report["io"].get("fallback_file"), stacklevel=3)
    return report


def _below_2_31(name: str, value: object) -> int:
    return integer(name, value, 0, (1 << 31) - 1)
