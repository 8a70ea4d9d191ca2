"""Training in Go."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from goagnes import _tasks
from goagnes._arrays import path_text
from goagnes._errors import UsageError
from goagnes._progress import ProgressArgument
from goagnes._store import Store


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
    normalize_features: bool | None = None,
    seed: int = 0,
    num_threads: int | None = None,
    hyperbatch_size: int | None = None,
    mode: str = "agnes",
    calibrate: bool = False,
    progress: ProgressArgument = None,
) -> dict[str, Any]:
    """Trains a node classifier on the store's splits train, val and test, in Go.

    ``model`` is "sage", "gcn", "gat" or "mlp"; ``preset`` "citation" is the setting of
    the citation benchmarks, "shchur" that of the Amazon and Coauthor graphs (with
    ``patience`` 50, 400 epochs at most). ``heads``,
    ``output_heads``, ``attention_dropout`` and ``residual`` (linear skips) are of "gat":
    the heads of its layers lie side by side and share ``hidden``, those of the last one
    are averaged. What is None is the preset's or the trainer's default, which
    the result names. ``save`` writes the weights as .npz.

    Returns the report of ``goagnes train --json``: options, losses and accuracies of
    every epoch, ``test_accuracy`` (0 to 1, measured once, with the weights that were
    best on val), seconds by stage, memory and bytes moved; with ``calibrate`` also what
    the device's own reads give, which takes a second more. Written to a file as JSON,
    ``goagnes report`` draws it. Equal seeds give equal weights. Ctrl-C ends it.
    """
    if not isinstance(store, Store):
        raise TypeError(f"store is a {type(store).__name__}, not a goagnes.Store; use goagnes.open(path)")
    options: dict[str, Any] = {
        "model": model,
        "preset": preset,
        "save": None if save is None else path_text("save", save),
        "layers": layers,
        "hidden": hidden,
        "heads": heads,
        "output_heads": output_heads,
        "attention_dropout": attention_dropout,
        "residual": residual,
        "dropout": dropout,
        "lr": lr,
        "weight_decay": weight_decay,
        "epochs": epochs,
        "patience": patience,
        "batch_size": batch_size,
        "num_neighbors": None if num_neighbors is None else [int(k) for k in num_neighbors],
        "eval_neighbors": None if eval_neighbors is None else [int(k) for k in eval_neighbors],
        "eval_batch_size": eval_batch_size,
        "normalize_features": normalize_features,
        "seed": seed,
        "num_threads": num_threads,
        "hyperbatch_size": hyperbatch_size,
        "mode": mode,
        "calibrate": calibrate or None,
    }
    for name, value in options.items():
        if isinstance(value, int | float) and not isinstance(value, bool) and value < 0:
            raise UsageError(f"{name}={value!r}; it must not be negative")
    request = {name: value for name, value in options.items() if value is not None}
    return dict(_tasks.run("train", {"store": store.handle, **request}, progress=progress))
