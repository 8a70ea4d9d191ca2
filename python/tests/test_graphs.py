"""Graphs of other libraries as inputs of build."""

from __future__ import annotations

import os

import networkx as nx
import numpy as np
import pytest
import scipy.sparse

import goagnes as ga
from goagnes import _graphs


def edges_of(store):
    """The edges by edge id, and the report's notes as one text."""
    with store:
        loader = ga.NeighborLoader(store, [-1], batch_size=store.num_nodes or 1, output="numpy")
        (batch,) = list(loader)
        edges = np.full((2, store.num_edges), -1, np.int64)
        edges[:, batch.e_id] = batch.n_id[batch.edge_index]
        loader.close()
    return edges, "\n".join(store.build_report["notes"])


def test_networkx_undirected(tmp_path):
    graph = nx.Graph([("b", "a"), ("a", "c"), ("c", "c")])
    graph.add_node("alone")
    store = ga.build(tmp_path / "s", graph)
    assert store.num_nodes == 4
    edges, notes = edges_of(store)
    np.testing.assert_array_equal(edges, [[0, 1, 2, 1, 2], [1, 2, 2, 0, 1]])
    assert "2 reverse edges" in notes
    assert "G.nodes" in notes


def test_networkx_multidigraph(tmp_path):
    graph = nx.MultiDiGraph()
    graph.add_edges_from([(5, 7), (5, 7), (7, 5), (9, 9)])
    edges, _ = edges_of(ga.build(tmp_path / "s", graph, np.zeros((3, 2), np.float32)))
    np.testing.assert_array_equal(edges, [[0, 0, 1, 2], [1, 1, 0, 2]])


def test_networkx_empty(tmp_path):
    with ga.build(tmp_path / "s", nx.empty_graph(3)) as store:
        assert (store.num_nodes, store.num_edges) == (3, 0)


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "lil", "csr_array"])
def test_scipy(tmp_path, kind):
    dense = np.array([[0, 2, 0], [0, 0, 1], [3, 0, 4]])
    matrix = scipy.sparse.csr_array(dense) if kind == "csr_array" else scipy.sparse.csr_matrix(dense).asformat(kind)
    edges, notes = edges_of(ga.build(tmp_path / "s", matrix))
    assert sorted(edges.T.tolist()) == np.argwhere(dense).tolist()
    np.testing.assert_array_equal(edges, [matrix.tocoo().row, matrix.tocoo().col])
    assert "scipy" in notes


def test_scipy_is_square(tmp_path):
    with pytest.raises(ga.InputError, match=r"\(2, 3\)"):
        ga.build(tmp_path / "s", scipy.sparse.csr_matrix(np.ones((2, 3))))
    assert os.listdir(tmp_path) == []


def test_fields():
    graph = _graphs.from_mapping({"edge_index": 1, "train_mask": np.ones(3, bool), "pos": 2}, 3, "data")
    assert list(graph.splits) == ["train"]
    assert graph.notes == ["data.pos is not read"]
    with pytest.raises(ga.InputError, match="no edge_index; it has x"):
        _graphs.from_mapping({"x": 1}, 3, "data")
    with pytest.raises(ga.UnsupportedError, match="several splits"):
        _graphs.from_mapping({"edge_index": 1, "val_mask": np.ones((3, 2), bool)}, 3, "data")


def test_arrays_are_no_graphs():
    assert _graphs.unpack(np.zeros((2, 3))) is None
    assert _graphs.unpack("edges.txt") is None


def test_processed_files(tmp_path):
    (tmp_path / "processed").mkdir()
    for name in ("pre_filter.pt", "pre_transform.pt", "data.pt"):
        (tmp_path / "processed" / name).touch()
    assert _graphs._processed(str(tmp_path)) == str(tmp_path / "processed" / "data.pt")
    (tmp_path / "processed" / "other.pt").touch()
    with pytest.raises(ga.InputError, match=r"2 \.pt files"):
        _graphs._processed(str(tmp_path))
