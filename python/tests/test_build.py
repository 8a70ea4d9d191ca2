"""Building stores from every kind of array, and what is refused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import goagnes as ga

EDGES = np.array([[0, 1, 2, 3, 4, 0, 2], [1, 2, 3, 4, 0, 2, 0]])
X = np.arange(30, dtype=np.float32).reshape(5, 6)
Y = np.array([0, 1, 2, -1, 1])


def content(store: ga.Store):
    """Everything in a store: all nodes with all in-edges."""
    loader = ga.NeighborLoader(store, [-1], batch_size=store.num_nodes or 1, output="numpy")
    (batch,) = list(loader)
    edges = np.empty((2, store.num_edges), np.int64)
    edges[:, batch.e_id] = batch.n_id[batch.edge_index]
    arrays = {"edges": edges, "x": batch.x, "y": batch.y}
    result = {name: None if a is None else a.copy() for name, a in arrays.items()}
    loader.close()
    return result


def built(path, edges=EDGES, x=X, y=Y, **options):
    with ga.build(path, edges, x, y, **options) as store:
        return content(store)


@pytest.mark.parametrize("order", ["auto", "original", "degree", "bfs"])
@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64", ">i4", ">i8"])
def test_edge_index_types(tmp_path, dtype, order):
    got = built(tmp_path / "s", EDGES.astype(dtype), order=order)
    np.testing.assert_array_equal(got["edges"], EDGES)
    np.testing.assert_array_equal(got["x"], X)
    np.testing.assert_array_equal(got["y"], Y)


@pytest.mark.parametrize(
    "edges",
    [
        EDGES.T,
        np.ascontiguousarray(EDGES.T),
        np.asfortranarray(EDGES),
        np.repeat(EDGES, 3, axis=1)[:, ::3],
        EDGES[:, ::-1][:, ::-1],
        EDGES[::-1, ::-1][::-1, ::-1],
        EDGES.tolist(),
        [EDGES[0], EDGES[1]],
    ],
    ids=["T", "E2", "fortran", "strided", "reversed", "reversed2", "list", "pair"],
)
def test_edge_index_layouts(tmp_path, edges):
    np.testing.assert_array_equal(built(tmp_path / "s", edges)["edges"], EDGES)


def test_negative_strides(tmp_path):
    np.testing.assert_array_equal(built(tmp_path / "s", EDGES[:, ::-1])["edges"], EDGES[:, ::-1])
    got = built(tmp_path / "t", x=X[::-1, ::2], y=Y[::-1])
    np.testing.assert_array_equal(got["x"], X[::-1, ::2])
    np.testing.assert_array_equal(got["y"], Y[::-1])


def test_edits_of_the_edge_list(tmp_path):
    edges = np.array([[0, 1, 2, 2, 0, 0, 1, 1], [1, 0, 3, 2, 1, 4, 2, 1]])
    everything = np.hstack([edges, edges[::-1], np.stack([np.arange(5)] * 2)])
    with ga.build(tmp_path / "s", edges, num_nodes=5, undirected=True, self_loops="add", duplicates="drop") as store:
        loader = ga.NeighborLoader(store, [-1], batch_size=5, output="numpy")
        (batch,) = list(loader)
        report = store.build_report
        num_edges = store.num_edges
        record = store.info()["source"]
        del loader
    np.testing.assert_array_equal(batch.n_id[batch.edge_index], everything[:, batch.e_id])
    _, first = np.unique(everything, axis=1, return_index=True)
    assert sorted(batch.e_id) == sorted(first)
    assert num_edges == len(first) == report["num_edges"]
    assert report["edges_listed"] == 8
    assert report["reverses_added"] == 6
    assert report["duplicates_dropped"] == 4
    assert report["self_loops_added"] == 3
    assert any("duplicates=drop" in note for note in report["notes"])
    assert record["edits"] == {name: report[name] for name in record["edits"]}
    assert len(record["edits"]) == 5


def test_self_loops_dropped(tmp_path):
    edges = np.array([[0, 1, 1], [1, 1, 0]])
    with ga.build(tmp_path / "s", edges, self_loops="drop") as store:
        assert store.num_edges == 2
        loader = ga.NeighborLoader(store, [-1], batch_size=2, output="numpy")
        (batch,) = list(loader)
        del loader
    assert sorted(batch.e_id) == [0, 2]


@pytest.mark.parametrize("layout", ["c", "fortran", "columns", "big-endian", "float16"])
def test_features(tmp_path, layout):
    x = {
        "c": X,
        "fortran": np.asfortranarray(X),
        "columns": np.repeat(X, 2, axis=1)[:, ::2],
        "big-endian": X.astype(">f4"),
        "float16": X.astype(np.float16),
    }[layout]
    got = built(tmp_path / "s", x=x)["x"]
    np.testing.assert_array_equal(got, X)
    assert got.dtype == x.dtype.newbyteorder("=")


def test_feature_dtype(tmp_path):
    for dtype in ("float16", np.float16, np.dtype("float16")):
        got = built(tmp_path / f"s{id(dtype)}", x=X + 0.25, feature_dtype=dtype)
        assert got["x"].dtype == np.float16
        np.testing.assert_array_equal(got["x"], (X + 0.25).astype(np.float16))
    with pytest.raises(ga.UsageError, match="feature_dtype"):
        built(tmp_path / "t", feature_dtype="complex64")


def test_files_and_memory_maps(tmp_path):
    for name, array in (("edges", EDGES), ("x", X), ("y", Y), ("fortran", np.asfortranarray(X))):
        np.save(tmp_path / f"{name}.npy", array)
    files = {name: tmp_path / f"{name}.npy" for name in ("edges", "x", "y")}
    for index, read in enumerate((str, lambda p: p, lambda p: np.load(p, mmap_mode="r"))):
        got = built(tmp_path / f"s{index}", *[read(files[name]) for name in ("edges", "x", "y")])
        np.testing.assert_array_equal(got["edges"], EDGES)
        np.testing.assert_array_equal(got["x"], X)
        np.testing.assert_array_equal(got["y"], Y)
    x = np.load(tmp_path / "fortran.npy", mmap_mode="r")
    np.testing.assert_array_equal(built(tmp_path / "f", x=x)["x"], X)
    part = np.load(files["x"], mmap_mode="r")[:, 1:4]
    np.testing.assert_array_equal(built(tmp_path / "p", x=part)["x"], X[:, 1:4])
    changed = np.load(files["x"], mmap_mode="c")
    changed[0, 0] = -7
    assert built(tmp_path / "c", x=changed)["x"][0, 0] == -7


def test_text_edges(tmp_path):
    text = tmp_path / "edges.txt"
    text.write_text("# a comment\n" + "\n".join(f"{s}\t{t}" for s, t in EDGES.T))
    with ga.build(tmp_path / "s", text, ids="dense") as store:
        np.testing.assert_array_equal(content(store)["edges"], EDGES)


def test_splits(tmp_path):
    mask = np.array([True, False, False, True, False])
    np.save(tmp_path / "test.npy", np.array([2], np.int32))
    splits = {"train": np.array([4, 1]), "val": mask, "test": tmp_path / "test.npy"}
    with ga.build(tmp_path / "s", EDGES, X, Y, splits=splits) as store:
        assert dict(store.splits) == {"train": 2, "val": 2, "test": 1}
        for name, ids in (("train", [4, 1]), ("val", [0, 3]), ("test", [2])):
            (batch,) = list(ga.NeighborLoader(store, [0], name, batch_size=10, output="numpy"))
            assert batch.n_id.tolist() == ids


def test_edgeless_and_isolated(tmp_path):
    none = np.empty((2, 0), np.int64)
    with ga.build(tmp_path / "s", none, X) as store:
        assert (store.num_nodes, store.num_edges) == (5, 0)
        assert content(store)["x"].shape == (5, 6)
    with ga.build(tmp_path / "t", EDGES, num_nodes=9) as store:
        assert store.num_nodes == 9


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"edges": -EDGES}, "negative"),
        ({"edges": EDGES + 1, "num_nodes": 5}, "5"),
        ({"edges": EDGES.astype(np.float64)}, "edge_index"),
        ({"edges": EDGES[0]}, "edge_index"),
        ({"edges": np.zeros((3, 4), np.int64)}, "edge_index"),
        ({"edges": np.array([["a", "b"]])}, "edge_index has element type"),
        ({"edges": [[0, 1], [2]]}, "edge_index is a list that is no array"),
        ({"edges": np.ma.masked_equal(EDGES, 3)}, "edge_index has masked elements"),
        ({"x": X[:4], "num_nodes": 5}, "4"),
        ({"y": Y[:4]}, "4"),
        ({"x": X.astype(complex)}, "x has element type complex128"),
        ({"splits": {"train": np.array([0, 5])}}, "5"),
        ({"splits": {"train": np.zeros(4, bool)}}, "4"),
        ({"splits": {"train": np.array([0.5])}}, "train"),
    ],
)
def test_refused_input(tmp_path, arguments, match):
    arguments = {"edges": EDGES, "x": X, "y": Y, **arguments}
    with pytest.raises(ga.Error, match=match) as raised:
        ga.build(tmp_path / "s", arguments.pop("edges"), **arguments)
    assert isinstance(raised.value, ValueError)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"edge_attr": X}, "edge_attr"),
        ({"node_attrs": {"time": Y}}, "node_attrs"),
        ({"edge_attrs": {"w": EDGES[0]}}, "edge_attrs"),
        ({"split": "random"}, "split='?random"),
        ({"compression": "zstd:10"}, "zstd:10"),
    ],
)
def test_unsupported(tmp_path, options, match):
    with pytest.raises(ga.UnsupportedError, match=match):
        ga.build(tmp_path / "s", EDGES, X, Y, **options)
    with pytest.raises(ga.UnsupportedError, match="edge_index"):
        ga.build(tmp_path / "s", {("a", "b", "c"): EDGES})
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"order": 3}, "order=3"),
        ({"order": "alphabetic"}, "alphabetic"),
        ({"block_size": "big"}, "block_size='big'"),
        ({"block_size": 1000}, "block_size|block size"),
        ({"overwrite": 1}, "overwrite=1"),
        ({"num_nodes": 1.5}, "num_nodes=1.5"),
        ({"num_nodes": -1}, "num_nodes=-1"),
        ({"ids": None}, "ids=None"),
        ({"undirected": 1}, "undirected=1"),
        ({"self_loops": "remove"}, "self_loops=.*remove.*keep.*drop.*add"),
        ({"duplicates": "add"}, "duplicates=.*add.*keep.*drop"),
        ({"ids": "sparse"}, "sparse"),
        ({"splits": [1, 2]}, "splits"),
        ({"splits": {1: [1]}}, "splits"),
        ({"progress": 3}, "progress=3"),
    ],
)
def test_wrong_arguments(tmp_path, options, match):
    with pytest.raises((ga.Error, TypeError), match=match):
        ga.build(tmp_path / "s", EDGES, X, Y, **options)
    assert os.listdir(tmp_path) == []


def test_overwrite(tmp_path):
    ga.build(tmp_path / "s", EDGES, X, Y).close()
    with pytest.raises(ga.Error, match="overwrite"):
        ga.build(tmp_path / "s", EDGES)
    with ga.build(tmp_path / "s", EDGES, overwrite=True) as store:
        assert store.num_features == 0


def test_nothing_is_copied(tmp_path):
    """The description of an array points at the array itself."""
    from goagnes._arrays import describe

    for array in (X, X.T, X[::-1], X[1:, ::2]):
        description, keep = describe("x", array)
        assert description["address"] == array.__array_interface__["data"][0]
        assert description["strides"] == list(array.strides)
        assert np.shares_memory(keep, array)
    np.save(tmp_path / "x.npy", X)
    assert describe("x", np.load(tmp_path / "x.npy", mmap_mode="r"))[0] == {"path": str(tmp_path / "x.npy")}
    with pytest.raises(ga.InputError, match="pass an array"):
        describe("edge_index", [[0] * 2**20, [0] * 2**20])


def test_progress(tmp_path, capsys):
    seen = []
    ga.build(tmp_path / "s", EDGES, X, Y, progress=lambda *a: seen.append(a)).close()
    assert all(isinstance(s, str) and isinstance(d, int) and isinstance(t, int) for s, d, t in seen)
    ga.build(tmp_path / "t", EDGES, X, Y, progress=None).close()
    ga.build(tmp_path / "u", EDGES, X, Y, progress=False).close()
    assert capsys.readouterr() == ("", "")


def test_interrupted_build_leaves_nothing(tmp_path):
    """Ctrl-C in the middle of a large build ends it within 200 ms, and no store is left."""
    code = (
        "import numpy as np, sys, goagnes as ga\n"
        "rng = np.random.default_rng(0)\n"
        "edges = rng.integers(0, 1 << 20, (2, 12_000_000), dtype=np.int64)\n"
        "def progress(stage, done, total):\n"
        "    print('building', flush=True)\n"
        "try:\n"
        f"    ga.build({str(tmp_path / 's')!r}, edges, progress=progress, memory='256MiB')\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted', flush=True)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    watchdog = threading.Timer(60, process.kill)
    watchdog.start()
    for line in process.stdout:
        if line == "building\n":
            break
    sent = time.monotonic()
    process.send_signal(signal.SIGINT)
    last = ""
    for line in process.stdout:
        if line == "interrupted\n":
            last, took = line, time.monotonic() - sent
            break
    process.wait()
    watchdog.cancel()
    assert last == "interrupted\n", f"exit status {process.returncode}"
    assert took < 0.5, f"{took} s"
    with pytest.raises(ga.StoreError):
        ga.open(tmp_path / "s")
    wait_until_empty(tmp_path)


def wait_until_empty(folder):
    """The work may still be tidying up: an interrupt does not wait for it beyond 200 ms."""
    until = time.monotonic() + 10
    while os.listdir(folder) and time.monotonic() < until:
        time.sleep(0.02)
    assert os.listdir(folder) == []


def test_interrupted_generate_leaves_nothing(tmp_path):

    def interrupt(stage, done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ga.generate(tmp_path / "s", num_nodes=1_000_000, progress=interrupt)
    wait_until_empty(tmp_path)


def test_import_formats(tmp_path):
    n = EDGES.max() + 1
    mtx = tmp_path / "graph.mtx"
    lines = [f"{s + 1} {t + 1} 0.5" for s, t in EDGES.T]
    mtx.write_text("%%MatrixMarket matrix coordinate real general\n" + f"{n} {n} {len(lines)}\n" + "\n".join(lines))
    table = tmp_path / "graph.csv"
    table.write_text("weight,dst,src\n" + "".join(f"1.5,{t},{s}\n" for s, t in EDGES.T))
    matrix = tmp_path / "graph.npz"
    order = np.argsort(EDGES[0], kind="stable")
    by_row = EDGES[:, order]
    np.savez_compressed(
        matrix,
        format=b"csr",
        shape=np.array([n, n]),
        data=np.ones(len(lines)),
        indices=by_row[1].astype(np.int32),
        indptr=np.searchsorted(by_row[0], np.arange(n + 1)).astype(np.int32),
    )
    for path, format, edges, notes in (mtx, "mtx", EDGES, 1), (table, "csv", EDGES, 1), (matrix, "scipy", by_row, 1):
        for named in "auto", format:
            with ga.import_dataset(tmp_path / "s", path, named, overwrite=True) as store:
                assert store.num_nodes == n
                assert len(store.build_report["notes"]) >= notes
                np.testing.assert_array_equal(content(store)["edges"], edges)
    mtx.write_text("%%MatrixMarket matrix coordinate pattern general\n9 9 1\n1 2\n")
    with ga.build(tmp_path / "isolated", mtx) as store:  # nodes without an edge, as the file states them
        assert store.num_nodes == 9
    mtx.write_text("%%MatrixMarket matrix coordinate integer general\n%%GraphBLAS type int8_t\n1 1 1\n1 1 128\n")
    with pytest.raises(ga.InputError, match=r"graph\.mtx:4: .128. is outside the range of type int8_t"):
        ga.import_dataset(tmp_path / "t", mtx)
    assert not (tmp_path / "t").exists()


def test_import_split_index(tmp_path):
    masks = np.zeros((2, 5), bool)
    masks[0, :2] = masks[1, 3:] = True
    path = tmp_path / "g.npz"
    np.savez(
        path,
        edges=EDGES.T,
        node_features=X,
        node_labels=np.maximum(Y, 0),
        train_masks=masks,
        val_masks=masks,
        test_masks=masks,
    )
    for index, want in (0, [0, 1]), (1, [3, 4]):
        with ga.import_dataset(tmp_path / "s", path, split_index=index, overwrite=True) as store:
            assert store.splits["train"] == len(want)
            loader = ga.NeighborLoader(store, [1], input_nodes="train", batch_size=5, output="numpy")
            assert [b.n_id[: b.batch_size].tolist() for b in loader] == [want]
            loader.close()
            both = {(s, t) for a, b in EDGES.T.tolist() for s, t in ((a, b), (b, a))}
            assert content(store)["edges"].T.tolist() == [list(e) for e in sorted(both)]
    with pytest.raises(ga.InputError, match="split_index 2 of 2"):
        ga.import_dataset(tmp_path / "t", path, split_index=2)
    with pytest.raises(ValueError, match="split_index"):
        ga.import_dataset(tmp_path / "t", path, split_index=-1)


def test_import_dataset(tmp_path):
    text = tmp_path / "graph.txt"
    text.write_text("# Directed graph\n" + "\n".join(f"{10 * s} {10 * t}" for s, t in EDGES.T) + "\n")
    with ga.import_dataset(tmp_path / "s", text) as store:
        assert (store.num_nodes, store.num_edges) == (5, 7)
        np.testing.assert_array_equal(content(store)["edges"], EDGES)  # ranked
    text.write_text("0 1\n1 x\n")
    with pytest.raises(ga.InputError, match=r"graph\.txt.*2"):
        ga.import_dataset(tmp_path / "t", text)
    with pytest.raises((ga.UnsupportedError, ga.InputError), match="nonesuch"):
        ga.import_dataset(tmp_path / "t", text, format="nonesuch")


def test_stripes(tmp_path):
    """A store over several directories has the same content, and says where it lies."""
    ssds = [tmp_path / "a", tmp_path / "b"]
    for ssd in ssds:
        ssd.mkdir()
    with ga.build(tmp_path / "s", EDGES, X, Y, stripes=ssds) as store:
        for name, value in content(store).items():
            np.testing.assert_array_equal(value, {"edges": EDGES, "x": X, "y": Y}[name])
        stripes = store.info()["stripes"]
        assert [os.path.dirname(stripe) for stripe in stripes] == [str(ssd) for ssd in ssds]
        assert store.verify()["findings"] == []
    moved = f"{stripes[1]}-moved"
    os.rename(stripes[1], moved)
    with pytest.raises(ga.StoreError, match=stripes[1]):
        ga.open(tmp_path / "s")
    assert ga.verify(tmp_path / "s")["findings"]
    assert ga.verify(tmp_path / "s", stripes=[stripes[0], moved])["findings"] == []
    with ga.open(tmp_path / "s", stripes=[stripes[0], moved]) as store:
        np.testing.assert_array_equal(content(store)["edges"], EDGES)


@pytest.mark.parametrize("stripes", ["one", 3, [3], [""]])
def test_stripes_refused(tmp_path, stripes):
    with pytest.raises(ga.UsageError, match="stripes"):
        ga.build(tmp_path / "s", EDGES, stripes=stripes)
    assert not (tmp_path / "s").exists()


def test_features_that_are_no_numbers(tmp_path):
    """They are kept, and told once."""
    x = np.ones((5, 2), dtype=np.float32)
    x[3, 1], x[4, 0] = np.nan, np.inf
    with pytest.warns(RuntimeWarning, match="1 values that are NaN and 1 that are infinite, the first in row 3"):
        store = ga.build(tmp_path / "s", EDGES, x, num_nodes=5)
    with store:
        np.testing.assert_array_equal(store.x[np.arange(5)], x)
        assert store.build_report["features_nan"] == store.build_report["features_infinite"] == 1
