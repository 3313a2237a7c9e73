"""Files and stores in formats of other libraries: parquet, Arrow, AnnData, zarr, what Dask has written, and videos."""

import shutil
import tempfile
import warnings
from pathlib import Path

import cv2
import numpy as np
import scipy.sparse as sp

from projbank.features.media import video_frames
from projbank.rows.cells import Place
from projbank.rows.files import open_vectors
from projbank.rows.parquet import read_column
from projbank.sinks import Output, cells_sink, parquet_sink, zarr_sink
from tests.features.media_files import write_video
from tests.fuzz.case import Format, of_folder


def foreign_formats(folder, bank):
    """All of them; `bank` codes what is read, `folder` is for scratch."""
    rng = np.random.default_rng(5)
    X = (rng.integers(0, 5, (60, bank.n_features_in_)) * (rng.random((60, bank.n_features_in_)) < 0.5)).astype("f4")

    def codes(place=Place()):  # noqa: B008
        return lambda path: bank.transform(open_vectors(path, None, place))

    with warnings.catch_warnings(), tempfile.TemporaryDirectory(dir=folder) as name:
        warnings.simplefilter("ignore")
        work = Path(name)
        yield from _tables(work, X, codes())
        yield from _cells(work, X, codes)
        yield from _zarr(work, folder, X, codes())
    yield from _videos(folder)


def _tables(work, X, codes):
    """Parquet and Arrow files."""
    import pyarrow as pa
    import pyarrow.feather as feather
    import pyarrow.parquet as pq

    vectors = pa.FixedSizeListArray.from_arrays(pa.array(X.reshape(-1)), X.shape[1])
    tables = {
        "vectors": pa.table({"id": [f"id {i}" for i in range(len(X))], "vector": vectors}),
        "lists": pa.table({"vector": pa.array(X.tolist(), pa.list_(pa.float64()))}),
        "columns": pa.table({str(i): column for i, column in enumerate(X.T)}),
    }
    for name, table in tables.items():
        pq.write_table(table, work / name, row_group_size=25, write_page_checksum=name == "vectors")
        content = (work / name).read_bytes()
        yield Format(f"parquet, {name}", content, codes, checked=False, suffix=".parquet", reserves=True)
        for compression in ("uncompressed", "lz4"):
            feather.write_feather(table, work / name, compression=compression, chunksize=25)
            title = f"Arrow, {name}, {compression}"
            content = (work / name).read_bytes()
            yield Format(title, content, codes, checked=False, suffix=".arrow", reserves=True)
    ids = pa.chunked_array([[f"id {i}" for i in range(len(X))]])
    note = {"kind": "codes", "made_by": "Bank:0", "n_bits": 32}
    with parquet_sink(Output(work / "codes", (len(X), 4), np.dtype("u1"), note), ids) as write:
        write(0, X.view(np.uint8)[:, :4])
    ids = lambda path: read_column(path, "id").to_pylist()  # noqa: E731
    content = (work / "codes").read_bytes()
    yield Format("parquet, codes and ids", content, ids, checked=False, suffix=".parquet", reserves=True)


def _cells(work, X, codes):
    """AnnData files, dense and sparse, and what is written into one."""
    import anndata as ad

    ad.AnnData(X).write_h5ad(work / "dense.h5ad")
    ad.AnnData(sp.csr_matrix(X)).write_h5ad(work / "sparse.h5ad", compression="gzip")
    for name in ("dense", "sparse"):
        content = (work / f"{name}.h5ad").read_bytes()
        yield Format(f"AnnData, {name}", content, codes(), checked=False, suffix=".h5ad")
    output = Output(work / "out.h5ad", X.shape, X.dtype, {"kind": "margins"})
    with cells_sink(output, work / "dense.h5ad", "X_codes") as write:
        write(0, X)
    place = Place(obsm="X_codes")
    yield Format("AnnData, obsm", output.path.read_bytes(), codes(place), checked=False, suffix=".h5ad")


def _zarr(work, folder, X, codes):
    """Stores, each with one file that is not what it was."""
    import anndata as ad
    import dask.array as da

    ad.AnnData(sp.csr_matrix(X)).write_zarr(work / "cells")
    da.from_array(X, chunks=(20, X.shape[1])).to_zarr(work / "dask")
    with zarr_sink(Output(work / "ours", X.shape, X.dtype, {"kind": "margins"})) as write:
        write(0, X)
    for store in ("cells", "dask", "ours"):
        place = folder / f"zarr {store}"
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(work / store, place)
        for target in sorted(path for path in place.rglob("*") if path.is_file()):
            name = target.relative_to(place).as_posix()
            if store != "cells" or name.startswith("X/") or name in ("zarr.json", ".zgroup", ".zmetadata"):
                yield of_folder(f"zarr, {store}", place, name, codes, checked=False, reserves=True)


def _videos(folder):
    path = folder / "video.avi"
    write_video(path, 3, n_frames=4, side=48)
    contents = {".avi": path.read_bytes()}
    writer = cv2.VideoWriter(str(folder / "video.mp4"), cv2.VideoWriter_fourcc(*"mp4v"), 25, (48, 48))
    for frame in video_frames(path, "video"):
        writer.write(cv2.cvtColor(frame, cv2.COLOR_GRAY2BGR))
    writer.release()
    contents[".mp4"] = (folder / "video.mp4").read_bytes()
    for suffix, content in contents.items():
        yield Format(f"video {suffix}", content, _decode, checked=False, suffix=suffix)


def _decode(path):
    return [frame.shape for frame in video_frames(path, path.name)]
