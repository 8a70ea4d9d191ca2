"""export and read_export: the loader's minibatches again, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

import goagnes as ga


@pytest.mark.parametrize("nodes", ["train", [299, 298, 297], []])
@pytest.mark.parametrize("drop_last", [False, True])
def test_equal_to_loader(store, tmp_path, nodes, drop_last):
    options = {"batch_size": 2 if nodes != "train" else 32, "shuffle": True, "drop_last": drop_last, "seed": 3}
    report = ga.export(store, tmp_path / "out", [4, 3], nodes, first_epoch=1, epochs=2, progress=False, **options)
    loader = ga.NeighborLoader(store, [4, 3], nodes, output="numpy", **options)
    loader.set_epoch(1)
    read = ga.read_export(tmp_path / "out", output="numpy")
    assert (read.epochs, read.seed, len(read)) == (
        [1, 2],
        3,
        2 * len(loader) == report["totals"]["minibatches"] and 2 * len(loader),
    )
    for epoch in read.epochs:
        for want, got in zip(loader, read.epoch(epoch), strict=True):
            assert want.keys() == got.keys()
            for name, array in want.items():
                assert (array.dtype, array.shape, array.tobytes()) == (
                    got[name].dtype,
                    got[name].shape,
                    got[name].tobytes(),
                )
                assert not got[name].flags.writeable
            for name in ("index", "batch_size", "num_nodes", "num_edges", "num_sampled_nodes", "num_sampled_edges"):
                assert getattr(want, name) == getattr(got, name)
    for file in tmp_path.glob("out/*/*.npy"):
        np.load(file, mmap_mode="r")


def test_damage(store, tmp_path):
    out = tmp_path / "out"
    ga.export(store, out, [3], "train", batch_size=40, seed=1, progress=False)
    with open(out / "epoch-0" / "x.npy", "r+b") as f:
        f.seek(-1, 2)
        f.write(b"\x55")
    read = ga.read_export(out, output="numpy")
    assert read[0].index == 0
    with pytest.raises(ga.StoreError, match=r"x\.npy, minibatch 2"):
        read[2]
    with pytest.raises(ga.StoreError, match=r"x\.npy, minibatch 2"):
        ga.read_export(out, verify=True)
    assert ga.read_export(out, output="numpy", verify=False)[2].index == 2
    (out / "export.json").rename(out / "export.partial.json")
    with pytest.raises(ga.StoreError, match="unfinished"):
        ga.read_export(out)


def test_refused(store, tmp_path):
    ga.export(store, tmp_path / "out", [3], "train", batch_size=40, seed=1, progress=False)
    with pytest.raises(ga.UsageError, match="batch_size was 40, is 20"):
        ga.export(store, tmp_path / "out", [3], "train", batch_size=20, seed=1, progress=False)
    with pytest.raises(ga.UsageError, match="first_epoch"):
        ga.export(store, tmp_path / "new", [3], first_epoch=2**32)
    with pytest.raises(ga.StoreError, match="no export"):
        ga.read_export(tmp_path)


@pytest.mark.torch
@pytest.mark.parametrize("output", ["torch", "pyg"])
def test_torch(store, tmp_path, output):
    torch = pytest.importorskip("torch")
    options = {"batch_size": 32, "seed": 3}
    ga.export(store, tmp_path / "out", [4, 3], "train", progress=False, **options)
    loader = ga.NeighborLoader(store, [4, 3], "train", output=output, **options)
    read = ga.read_export(tmp_path / "out", output=output)
    for _ in range(2):
        for want, got in zip(loader, read, strict=True):
            loader.set_epoch(0)
            for name in ("y", "n_id", "edge_index", "e_id", "input_id"):
                assert torch.equal(want[name], got[name]) and want[name].dtype == got[name].dtype
    got.x.add_(1)  # private: the files stay as they are
    ga.read_export(tmp_path / "out", verify=True)


def test_an_error_in_progress_frees_the_folder(tmp_path):
    """An export that the caller's own function ends can be gone on with at once."""

    class EnoughError(Exception):
        pass

    def progress(stage, done, total):
        raise EnoughError

    options = {"num_neighbors": [5, 5], "batch_size": 10, "seed": 1}
    with ga.generate(tmp_path / "s", num_nodes=30_000, num_features=4, num_classes=2) as store:
        for _ in range(3):
            with pytest.raises(EnoughError):
                ga.export(store, tmp_path / "e", progress=progress, **options)
        ga.export(store, tmp_path / "e", max_batches=5, overwrite=True, **options)
    assert len(list(ga.read_export(tmp_path / "e"))) == 5


def test_the_path_of_an_export_is_a_folder(tmp_path):
    """A path that can hold no export is a wrong argument, named."""
    file = tmp_path / "file"
    file.write_text("kept")
    with ga.generate(tmp_path / "s", num_nodes=1000, num_features=4, num_classes=2) as store:
        with pytest.raises(ga.UsageError, match="file: is no folder"):
            ga.export(store, file, num_neighbors=[2])
        with pytest.raises(ga.UsageError, match="does not exist"):
            ga.export(store, tmp_path / "none" / "e", num_neighbors=[2])
    assert file.read_text() == "kept"
    with pytest.raises(ga.Error, match="is no folder"):
        ga.read_export(file)
