"""Writes the Parquet files of this folder with pyarrow: `python write.py` in it.

They were written by pyarrow 26.0.1. Edge i of each is (i * 7919 % 1000, i * 31 % 997),
for i below 240, unless the test says otherwise; the columns beside are not read.
"""

import pyarrow as pa
import pyarrow.parquet as pq

N = 240


def table(
    kind: pa.DataType, names: tuple[str, str] = ("src", "dst"), source: list[int | None] | None = None
) -> pa.Table:
    """The edges as columns of that type between columns that no reader of edges wants."""
    source = [i * 7919 % 1000 for i in range(N)] if source is None else source
    target = [i * 31 % 997 for i in range(N)]
    return pa.table(
        {
            "weight": pa.array([i / 8 for i in range(N)]),
            names[0]: pa.array(source, kind),
            "label": pa.array([f"edge {i % 5}" for i in range(N)]),
            names[1]: pa.array(target, kind),
        }
    )


def write(name: str, edges: pa.Table, **options: object) -> None:
    """Writes one file."""
    pq.write_table(edges, f"{name}.parquet", **options)


def required(edges: pa.Table) -> pa.Table:
    """The same columns, marked as never null."""
    return edges.cast(pa.schema([field.with_nullable(False) for field in edges.schema]))


ids = ["src", "dst"]
write("plain-v1-int64", table(pa.int64()), compression="none", use_dictionary=False, data_page_version="1.0")
write("plain-v2-uint32", table(pa.uint32()), compression="none", use_dictionary=False, data_page_version="2.0")
write("dictionary-v1-snappy-int32", table(pa.int32()), compression="snappy", data_page_version="1.0")
write("dictionary-v2-zstd-int64", table(pa.int64()), compression="zstd", data_page_version="2.0")
write("plain-v2-gzip-int32", table(pa.int32()), compression="gzip", use_dictionary=False, data_page_version="2.0")
write("required-v1-zstd-uint64", required(table(pa.uint64())), compression="zstd", data_page_version="1.0")
write("groups-v2-snappy-int64", table(pa.int64()), compression="snappy", row_group_size=70, data_page_version="2.0")
write(
    "pages-v1-gzip-int64",
    table(pa.int64()),
    compression="gzip",
    use_dictionary=False,
    data_page_size=256,
    write_batch_size=32,
)
write(
    "checked-v2-none-int64",
    table(pa.int64()),
    compression="none",
    write_page_checksum=True,
    write_page_index=True,
    data_page_version="2.0",
)
write(
    "delta-v2-none-int64",
    table(pa.int64()),
    compression="none",
    use_dictionary=False,
    column_encoding=dict.fromkeys(ids, "DELTA_BINARY_PACKED"),
    data_page_version="2.0",
)
write(
    "split-v1-none-int32",
    table(pa.int32()),
    compression="none",
    use_dictionary=False,
    column_encoding=dict.fromkeys(ids, "BYTE_STREAM_SPLIT"),
)
write("narrow-v1-snappy-int16", table(pa.int16()), compression="snappy")
write("named-v1-zstd-int64", table(pa.int64(), ("source", "target")), compression="zstd")
write("lz4", table(pa.int64()), compression="lz4")
write("brotli", table(pa.int64()), compression="brotli")
write("null", table(pa.int64(), source=[None if i == 131 else i * 7919 % 1000 for i in range(N)]))
write("negative", table(pa.int32(), source=[-1 if i == 7 else i * 7919 % 1000 for i in range(N)]))
