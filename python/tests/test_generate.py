"""Synthetic graphs and training on them."""

from __future__ import annotations

import os

import numpy as np
import pytest

import goagnes as ga


def test_community_store(tmp_path):
    with ga.generate(tmp_path / "s", "community", num_nodes=3000, num_features=8, num_classes=4, seed=3) as store:
        assert store.num_nodes == 3000
        assert store.num_features == 8
        assert store.num_classes == 4
        assert dict(store.splits) == {"train": 300, "val": 150, "test": 300}


def test_raw_equals_store(tmp_path):
    """The arrays of raw= make the store that path= makes."""
    options = {"num_nodes": 1024, "num_features": 4, "avg_degree": 5, "seed": 9, "feature_dtype": np.float16}
    assert ga.generate(raw=tmp_path / "raw", kind="rmat", **options) is None
    files = sorted(os.listdir(tmp_path / "raw"))
    assert files == [
        "edge_index.npy",
        "num_nodes.npy",
        "split_test.npy",
        "split_train.npy",
        "split_val.npy",
        "x.npy",
        "y.npy",
    ]
    splits = {name: tmp_path / "raw" / f"split_{name}.npy" for name in ("train", "val", "test")}
    edges, x, y = (tmp_path / "raw" / f"{name}.npy" for name in ("edge_index", "x", "y"))
    with (
        ga.generate(tmp_path / "s", "rmat", **options) as direct,
        ga.build(tmp_path / "t", edges, x, y, num_nodes=1024, splits=splits) as rebuilt,
    ):
        assert direct.num_edges == rebuilt.num_edges == np.load(edges, mmap_mode="r").shape[1]
        pairs = zip(
            *[
                ga.NeighborLoader(store, [3, 3], "train", batch_size=50, shuffle=True, seed=1, output="numpy")
                for store in (direct, rebuilt)
            ],
            strict=True,
        )
        for one, other in pairs:
            for name in ("x", "y", "n_id", "edge_index", "e_id", "input_id"):
                np.testing.assert_array_equal(one[name], other[name])


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("order", "degree"),
        ("block_size", "64KiB"),
        ("compression", "zstd"),
        ("stripes", ["a", "b"]),
        ("overwrite", True),
    ],
)
def test_raw_refuses_a_shape(tmp_path, option, value):
    """Arrays have no order, blocks or compression: what would be passed over is refused by name."""
    with pytest.raises(ga.UnsupportedError, match=f"{option}="):
        ga.generate(raw=tmp_path / "raw", num_nodes=100, **{option: value})
    assert not (tmp_path / "raw").exists()


def test_compressed(tmp_path):
    """Compression is that of the store alone: the graph is the same."""
    options = {"num_nodes": 3000, "num_features": 2, "num_classes": 4, "block_size": "64KiB"}
    with (
        ga.generate(tmp_path / "plain", **options) as plain,
        ga.generate(tmp_path / "small", compression="zstd:9", **options) as small,
    ):
        sizes = [(tmp_path / name / "graph").stat().st_size for name in ("plain", "small")]
        assert sizes[1] < sizes[0]
        for v in (0, 7, 2999):
            np.testing.assert_array_equal(plain.neighbors(v), small.neighbors(v))


@pytest.mark.parametrize(
    "options",
    [
        {"num_nodes": 1000.5},
        {"num_nodes": 1024, "avg_degree": float("nan")},
        {"kind": "lattice", "num_nodes": 1024},
        {"num_nodes": 0},
        {"num_nodes": -4},
        {"num_nodes": 1024, "feature_dtype": "int8"},
        {"num_nodes": 1024, "avg_degree": -1},
        {"num_nodes": 1024, "raw": "both"},
        {"num_nodes": 1024, "compression": "lz4"},
    ],
)
def test_refused(tmp_path, options):
    with pytest.raises(ga.Error) as raised:
        ga.generate(tmp_path / "s", **options)
    assert isinstance(raised.value, ValueError)
    assert not (tmp_path / "s").exists()
    with pytest.raises(ga.UsageError, match="either path"):
        ga.generate(num_nodes=1024)


@pytest.fixture(scope="module")
def communities(tmp_path_factory):
    path = tmp_path_factory.mktemp("train") / "s"
    with ga.generate(path, "community", num_nodes=4000, num_features=16, num_classes=4, seed=1) as store:
        yield store


def test_train(communities, tmp_path):
    seen = []
    options = {"layers": 2, "hidden": 16, "epochs": 3, "batch_size": 100, "num_neighbors": [5, 5], "seed": 4}
    report = ga.train(communities, "sage", save=tmp_path / "m.npz", progress=lambda *a: seen.append(a), **options)
    assert report["model"] == "sage"
    assert len(report["epochs"]) == 3
    assert 0.25 < report["test_accuracy"] <= 1
    assert (tmp_path / "m.npz").stat().st_size > 100
    again = ga.train(communities, "sage", num_threads=1, **options)
    assert again["weights_sha256"] == report["weights_sha256"]


def test_train_refuses(communities, store_path):
    for arguments, match in (
        ({"model": "transformer"}, "transformer"),
        ({"epochs": -1}, "epochs"),
        ({"num_neighbors": [5], "layers": 2}, "num_neighbors|layers"),
        ({"preset": "imagenet"}, "imagenet"),
    ):
        with pytest.raises(ga.Error, match=match):
            ga.train(communities, **arguments)
    with pytest.raises(TypeError, match=r"goagnes\.open"):
        ga.train("path")


def test_interrupted_training(communities):
    """Ctrl-C ends a long training at once; the store stays usable."""
    import signal
    import threading
    import time

    sent: list[float] = []

    def interrupt() -> None:
        time.sleep(0.5)
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        ga.train(communities, "sage", epochs=100_000, hidden=64, layers=2, num_neighbors=[10, 10])
    assert time.monotonic() - sent[0] < 0.3
    assert ga.train(communities, "mlp", epochs=1, layers=2, hidden=8)["model"] == "mlp"
