"""Edge lists in Parquet as pyarrow writes them, whatever the version that is here."""

import itertools

import numpy as np
import pytest

import goagnes as ga

pa = pytest.importorskip("pyarrow", reason="pyarrow is not here: files that it wrote once are read by the Go tests")
pq = pytest.importorskip("pyarrow.parquet")

EDGES = np.array([[i * 7919 % 1000 for i in range(5000)], [i * 31 % 997 for i in range(5000)]])


def stored(path):
    """The edges of a store in the order of their ids."""
    with ga.import_dataset(path.parent / "s", path, overwrite=True, num_nodes=1000) as store:
        loader = ga.NeighborLoader(store, [-1], batch_size=1000, output="numpy")
        (batch,) = list(loader)
        del loader
        edges = np.empty((2, len(batch.e_id)), dtype=np.int64)
        edges[:, batch.e_id] = batch.n_id[batch.edge_index]
        return edges


@pytest.mark.parametrize("kind", ["int16", "int32", "int64", "uint32", "uint64"])
def test_types_and_pages(tmp_path, kind):
    path = tmp_path / "edges.parquet"
    table = pa.table({"src": pa.array(EDGES[0], kind), "weight": np.ones(5000), "dst": pa.array(EDGES[1], kind)})
    for compression, version, dictionary in itertools.product(
        ["none", "snappy", "gzip", "zstd"], ["1.0", "2.0"], [False, True]
    ):
        options = {"compression": compression, "data_page_version": version, "use_dictionary": dictionary}
        pq.write_table(table, path, row_group_size=2100, data_page_size=4096, **options)
        np.testing.assert_array_equal(stored(path), EDGES, err_msg=str(options))


def test_nulls_and_other_compressions_are_refused(tmp_path):
    path = tmp_path / "edges.parquet"
    pq.write_table(pa.table({"src": [1, None], "dst": [0, 1]}), path)
    with pytest.raises(ga.InputError, match=r"edges\.parquet\[1\]: null in column src"):
        ga.import_dataset(tmp_path / "s", path)
    pq.write_table(pa.table({"src": [1, 2], "dst": [0, 1]}), path, compression="lz4")
    with pytest.raises(ga.UnsupportedError, match="compressed by LZ4_RAW; write it with snappy"):
        ga.import_dataset(tmp_path / "s", path)
    assert not (tmp_path / "s").exists()
