"""Graph attention and splits drawn by class, from Python."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys

import numpy as np
import pytest

import goagnes as ga

LABELS, SIZE = 4, 900


@pytest.fixture(scope="module")
def arrays():
    rng = np.random.default_rng(7)
    y = rng.integers(0, LABELS, SIZE)
    edges = rng.integers(0, SIZE, (2, 12_000))
    alike = (y[edges[0]] == y[edges[1]]) | (rng.random(12_000) < 0.1)
    x = rng.standard_normal((SIZE, 8), dtype=np.float32)
    x[np.arange(SIZE), y] += 1
    return {"edge_index": edges[:, alike], "x": x, "y": y}


def members(store: ga.Store) -> dict[str, np.ndarray]:
    return {name: np.flatnonzero(getattr(store, f"{name}_mask")) for name in ("train", "val", "test")}


@pytest.fixture(scope="module")
def drawn(arrays, tmp_path_factory):
    path = tmp_path_factory.mktemp("drawn") / "s"
    with ga.build(path, **arrays, split="per-class:20,30", split_seed=1, progress=False) as store:
        yield store


def test_split_per_class(arrays, drawn, tmp_path):
    y, one = arrays["y"], members(drawn)
    assert np.bincount(y[one["train"]]).tolist() == [20] * LABELS
    assert np.bincount(y[one["val"]]).tolist() == [30] * LABELS
    everyone = np.concatenate(list(one.values()))
    np.testing.assert_array_equal(np.sort(everyone), np.arange(SIZE))
    for seed, equal in ((1, True), (2, False)):
        options = {"split": "per-class:20,30", "split_seed": seed, "order": "degree", "progress": False}
        with ga.build(tmp_path / str(seed), **arrays, **options) as store:
            assert np.array_equal(members(store)["train"], one["train"]) is equal


@pytest.mark.parametrize("split", ["per-class:20", "per-class:0,5", "per-class:a,b", "random:20,30"])
def test_split_refused(arrays, tmp_path, split):
    with pytest.raises(ValueError, match="split"):
        ga.build(tmp_path / "s", **arrays, split=split, progress=False)
    assert not (tmp_path / "s").exists()


def test_gat(drawn, tmp_path):
    gat = {"heads": 4, "output_heads": 2, "attention_dropout": 0.3}
    common = {"layers": 2, "hidden": 16, "epochs": 40, "lr": 0.02, "seed": 4}
    report = ga.train(
        drawn,
        model="gat",
        residual=True,
        num_neighbors=[-1, -1],
        save=tmp_path / "m.npz",
        progress=False,
        **gat,
        **common,
    )
    told = report["options"]
    assert (told["heads"], told["output_heads"], told["attention_dropout"], told["residual"]) == (4, 2, 0.3, True)
    assert report["test_accuracy"] > 0.6
    with np.load(tmp_path / "m.npz") as model:
        assert model["layers.0.attention.source"].shape == (4, 4)
        assert model["layers.1.attention.target"].shape == (2, LABELS)
        assert model["layers.0.residual.weight"].shape == (8, 16)
    run = [sys.executable, "-m", "goagnes", "train", str(drawn.path), "--json", "--model", "gat", "--residual"]
    run += ["--num-neighbors=-1,-1"] + [f"--{name.replace('_', '-')}={v}" for name, v in (gat | common).items()]
    shell = subprocess.run(run, capture_output=True, text=True, check=True)
    assert json.loads(shell.stdout)["weights_sha256"] == report["weights_sha256"]


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"model": "gat", "heads": 3, "hidden": 16}, "multiple of 3"),
        ({"model": "gat", "heads": -1}, "heads"),
        ({"model": "gat", "attention_dropout": 1.0}, "attention_dropout"),
        ({"model": "gcn", "heads": 2}, "heads"),
        ({"model": "sage", "residual": True}, "residual"),
    ],
)
def test_gat_refused(drawn, arguments, match):
    with pytest.raises(ValueError, match=match):
        ga.train(drawn, epochs=1, progress=False, **arguments)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"num_neighbors": [1.5]}, r"num_neighbors\[0\] is 1.5, not an integer"),
        ({"num_neighbors": "12"}, "must be a list of integers"),
        ({"num_neighbors": itertools.repeat(1)}, "more than 64 hops"),
        ({"lr": float("nan")}, "lr=nan; it must be a finite number"),
        ({"dropout": True}, "dropout=True is not a number"),
        ({"epochs": 2**31}, "epochs=2147483648; it must be an integer from 0 to"),
        ({"hidden": 8.0}, "hidden=8.0 is not an integer"),
        ({"residual": 1}, "residual=1; it must be True or False"),
        ({"model": 5}, "model=5; it must be a text"),
        ({"seed": 2**64}, "seed="),
        ({"mode": "none"}, "mode='none' is not supported"),
    ],
)
def test_arguments_refused(drawn, arguments, match):
    with pytest.raises(ValueError, match=match) as raised:
        ga.train(drawn, progress=False, **arguments)
    assert isinstance(raised.value, ga.Error)


def test_calibrate(drawn):
    report = ga.train(drawn, layers=1, hidden=4, epochs=1, calibrate=True, progress=False)
    assert report["device"]["bytes_per_second"] > 0
    assert "device" not in ga.train(drawn, layers=1, hidden=4, epochs=1, progress=False)


@pytest.mark.parametrize(("model", "hidden"), [("gcn", 64), ("gat", 64)])
def test_preset_shchur(drawn, model, hidden):
    report = ga.train(drawn, model=model, preset="shchur", epochs=3, progress=False)
    told = report["options"]
    assert (told["layers"], told["hidden"], told["normalize_features"]) == (2, hidden, "l2")
    assert (told["monitor"], told["patience"]) == ("val_accuracy", 50)
    assert told["num_neighbors"] == told["eval_neighbors"] == [-1, -1]
    assert len(report["epochs"]) == 3


@pytest.mark.parametrize("normalize", ["none", "l2"])
def test_monitor_and_features(drawn, normalize):
    """What a preset has can be turned off, and the shell's flags do the same."""
    options = {"normalize_features": normalize, "monitor": "val_loss"}
    report = ga.train(drawn, model="gcn", preset="citation", epochs=12, progress=False, **options)
    assert {name: report["options"][name] for name in options} == options
    losses = [epoch["val_loss"] for epoch in report["epochs"]]
    assert report["best_epoch"] == losses.index(min(losses))
    run = [sys.executable, "-m", "goagnes", "train", str(drawn.path), "--json", "--model=gcn", "--preset=citation"]
    run += ["--epochs=12"] + [f"--{k.replace('_', '-')}={v}" for k, v in options.items()]
    shell = subprocess.run(run, capture_output=True, text=True, check=True)
    assert json.loads(shell.stdout)["weights_sha256"] == report["weights_sha256"]


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"monitor": "test_accuracy"}, "choose val_accuracy or val_loss"),
        ({"normalize_features": "rows"}, "choose none, row or l2"),
    ],
)
def test_monitor_and_features_refused(drawn, arguments, match):
    with pytest.raises(ValueError, match=match):
        ga.train(drawn, progress=False, **arguments)
