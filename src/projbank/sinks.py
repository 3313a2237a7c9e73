"""Files and stores that codes are written to, block by block: `.npy`, parquet, zarr, AnnData. All appear whole."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from projbank.extras import import_extra
from projbank.files import atomic_path, check_output, locked, replace_folder
from projbank.integrity import add_note, input_file
from projbank.unfinished import Unfinished, Write

SUFFIXES = (".h5ad", ".npy", ".parquet", ".zarr")
_ZARR = ("zarr.json", ".zgroup", ".zarray")
"""Files by which a folder shows that it is a zarr store."""


class Output(NamedTuple):
    """What is written."""

    path: Path
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    note: dict[str, Any]
    """`kind`, `made_by` and `n_bits`."""
    inputs: tuple[Path, ...] = ()
    force: bool = False
    asked: str = ""
    """What is read of the inputs, where that may differ."""


@contextlib.contextmanager
def npy_sink(output: Output) -> Iterator[tuple[Write, int]]:
    """Write codes to a `.npy` file; also gives the number of rows that a run wrote which was cut off.

    Until the file is whole, it is in `<output>.partial`: the same job goes on there, another or an error discards it.
    """
    check_output(output.path, kind=output.note["kind"], inputs=output.inputs, force=output.force)
    unfinished = Unfinished(Path(os.path.realpath(output.path)), {})
    codes = unfinished.folder / "codes.npy"
    job = json.dumps([output.note, output.asked, *map(stamp, output.inputs)])
    with unfinished.locked():
        try:
            with unfinished.rows(codes.name, output.shape, output.dtype, job) as found:
                yield found
            add_note(codes, **output.note)
            with _file(output, output.note["kind"]) as temporary:
                os.replace(codes, temporary)
        except Exception:
            unfinished.discard()
            raise
        unfinished.discard()


@contextlib.contextmanager
def parquet_sink(output: Output, ids: Any = None, id_name: str = "id") -> Iterator[Write]:
    """Write codes as a column `code` of fixed-size binary (margins: of lists of floats), beside their ids.

    Parameters
    ----------
    ids : pyarrow.ChunkedArray of as many values as there are codes; their numbers, if None
    id_name : name of their column
    """
    pa, pq = (
        import_extra("pyarrow", "parquet", "writing this file"),
        import_extra("pyarrow.parquet", "parquet", "writing this file"),
    )
    width = output.shape[1]
    is_code = output.dtype == np.uint8
    kind = pa.binary(width) if is_code else pa.list_(pa.float32(), width)
    fields = [pa.field(id_name, pa.int64() if ids is None else ids.type), pa.field("code", kind)]
    schema = pa.schema(fields, metadata={"projbank": json.dumps(output.note, sort_keys=True)})
    with _file(output, "parquet file") as temporary, pq.ParquetWriter(temporary, schema) as writer:

        def write(start: int, codes: NDArray[Any]) -> None:
            n = len(codes)
            names = pa.array(np.arange(start, start + n)) if ids is None else ids.slice(start, n).combine_chunks()
            flat = np.ascontiguousarray(codes).reshape(-1)
            if is_code:
                column = pa.FixedSizeBinaryArray.from_buffers(kind, n, [None, pa.py_buffer(flat)])
            else:
                column = pa.FixedSizeListArray.from_arrays(pa.array(flat), width)
            writer.write_table(pa.Table.from_arrays([names, column], schema=schema))

        yield write


@contextlib.contextmanager
def zarr_sink(output: Output, source: Path | None = None, obsm: str | None = None) -> Iterator[Write]:
    """Write codes to a zarr array; or to `obsm` of a copy of an AnnData store `source`."""
    zarr = import_extra("zarr", "zarr", "writing this file")
    with _folder(output) as temporary:
        if source is None:
            array = _zarr_array(zarr.create_array, output, store=temporary)
        else:
            shutil.copytree(source, temporary, dirs_exist_ok=True)
            root = zarr.open_group(temporary, mode="r+")
            group = root.require_group("obsm")
            array = _zarr_array(group.create_array, output, name=obsm, overwrite=True)
        array.attrs.update(_attributes(output))

        yield _writer(array)
        if source is not None:
            zarr.consolidate_metadata(temporary)


@contextlib.contextmanager
def cells_sink(output: Output, source: Path, obsm: str) -> Iterator[Write]:
    """Write codes to `obsm` of a copy of an AnnData file."""
    h5py = import_extra("h5py", "hdf5", "writing this file")
    size = input_file(source).stat().st_size + output.dtype.itemsize * output.shape[0] * output.shape[1]
    with _file(output, "HDF5 file", size) as temporary:
        shutil.copyfile(source, temporary)
        with h5py.File(temporary, "r+", locking=False) as file:
            group = file.require_group("obsm")
            for name, value in (("encoding-type", "dict"), ("encoding-version", "0.1.0")):
                group.attrs.setdefault(name, value)
            if obsm in group:
                del group[obsm]
            array = group.create_dataset(obsm, output.shape, output.dtype)
            array.attrs.update(_attributes(output))
            yield _writer(array)


def _file(output: Output, kind: str, size: int = 0) -> contextlib.AbstractContextManager[Path]:
    return atomic_path(output.path, kind=kind, inputs=output.inputs, size=size, force=output.force)


def stamp(path: Path) -> list[Any]:
    """What shows that an input has changed: its name, length and time; of a folder those of its files."""
    files = [path, *(file for file in path.rglob("*"))] if path.is_dir() else [path]
    found = [file.stat() for file in files]
    return [
        os.path.realpath(path),
        len(found),
        sum(one.st_size for one in found),
        max(one.st_mtime_ns for one in found),
    ]


@contextlib.contextmanager
def _folder(output: Output) -> Iterator[Path]:
    """Give a temporary folder beside a folder that is written, which it becomes on success.

    It is locked while it is filled; what a killed process left of it is removed first.
    """
    target = Path(os.path.realpath(output.path))
    if target.is_dir() and not output.force:
        raise FileExistsError(f"cannot write {output.path}: there is such a folder; remove it, or give --force.")
    if target.is_dir() and not any((target / name).is_file() for name in _ZARR):
        raise FileExistsError(
            f"cannot write {output.path}: there is a folder that is no zarr store; name another output."
        )
    for path in output.inputs:
        if Path(os.path.realpath(path)).is_relative_to(target):
            raise ValueError(f"cannot write {output.path}: it is the input {path}, or holds it; name another output.")
    if not target.is_dir():
        check_output(target)
    temporary = target.with_name(f".{target.name}.part")
    lock = target.with_name(f".{target.name}.lock")
    with locked(lock, f"cannot write {output.path}: another process is writing it."):
        shutil.rmtree(temporary, ignore_errors=True)
        try:
            temporary.mkdir()
            yield temporary
            replace_folder(temporary, target)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
            lock.unlink(missing_ok=True)


def _writer(array: Any) -> Write:
    def write(start: int, codes: NDArray[Any]) -> None:
        array[start : start + len(codes)] = codes

    return write


def _zarr_array(create: Callable[..., Any], output: Output, **where: Any) -> Any:
    rows = max(1, min(output.shape[0], (4 << 20) // (output.dtype.itemsize * output.shape[1])))
    return create(shape=output.shape, chunks=(rows, output.shape[1]), dtype=output.dtype, **where)


def _attributes(output: Output) -> dict[str, str]:
    """What AnnData wants to know of an array, and what made it."""
    note = json.dumps(output.note, sort_keys=True)
    return {"encoding-type": "array", "encoding-version": "0.2.0", "projbank": note}
