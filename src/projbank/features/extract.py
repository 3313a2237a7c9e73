"""From a data set to a file of vectors: learn a codebook, encode every file, resume where a run was cut off."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from projbank.features.extractor import FeatureExtractor
from projbank.features.media import MediaError
from projbank.features.readers import Source
from projbank.features.rowfile import RowFile
from projbank.features.workers import NO_DESCRIPTORS, Workers
from projbank.models.file import load
from projbank.params import check_choice, check_int
from projbank.progress import progress, say
from projbank.threads import thread_count

SAMPLE_IMAGES = 2000


@dataclass(frozen=True)
class Outputs:
    """The files of one extraction.

    Beside `vectors.npy` stand `labels.npy`, `files.txt` and `classes.txt`; beside any other name, say `q.npy`, they are
    `q.labels.npy` and so on, so that several sets can share a folder.
    """

    vectors: Path

    @property
    def _prefix(self) -> str:
        return "" if self.vectors.stem == "vectors" else self.vectors.stem + "."

    @property
    def labels(self) -> Path:
        """Label of each row, int64; -1 where there is none."""
        return self.vectors.with_name(self._prefix + "labels.npy")

    @property
    def files(self) -> Path:
        """File of each row, one per line."""
        return self.vectors.with_name(self._prefix + "files.txt")

    @property
    def classes(self) -> Path:
        """Label and name of each class, one per line with a tab between."""
        return self.vectors.with_name(self._prefix + "classes.txt")

    @property
    def codebook(self) -> Path:
        """Descriptor settings and codebook, for `FeatureExtractor` and `--codebook`."""
        return self.vectors.with_name(self.vectors.stem + ".codebook.safetensors")

    @property
    def partial(self) -> Path:
        """Folder of a run that is not finished."""
        return self.vectors.with_name(self.vectors.name + ".partial")


@dataclass(frozen=True)
class Summary:
    """What an extraction did."""

    outputs: Outputs
    n_rows: int
    n_dims: int
    skipped: list[str]  # one reason per file, which names it
    empty: list[str]  # files without descriptors
    seconds_codebook: float
    seconds_encoding: float
    n_encoded: int  # files of this run, without those that an earlier one had done


def extract(
    source: Source,
    extractor: FeatureExtractor,
    output: str | os.PathLike[str],
    *,
    on_error: str = "fail",
    sample_images: int = SAMPLE_IMAGES,
    restart: bool = False,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> Summary:
    """Encode every file of a data set into a `.npy` file, with labels, file names and codebook beside it.

    Everything is written to the folder ``<output>.partial`` and moved when it is whole. A run that was cut off is taken
    up by calling again with the same arguments; files that are done are not done again.

    Parameters
    ----------
    source : data set, see `open_source`
    extractor : a fitted one is used as it is; otherwise its codebook is learnt from the data set
    output : path of the vectors, ending in .npy
    on_error : "fail" raises MediaError for a file that can't be decoded, "skip" reports it and leaves it out
    sample_images : files that the codebook is learnt from, drawn at random
    restart : discard what a run with other arguments left behind
    n_jobs : worker processes; None is one per core
    """
    outputs = Outputs(Path(output))
    check_choice("extract", "on_error", on_error, ("fail", "skip"))
    check_int("extract", "sample_images", sample_images, 1)
    if extractor.media != source.media:
        raise ValueError(f"{source.root} holds {source.media}s, but the descriptor is one of {extractor.media}s.")
    _open_partial(outputs, _job(source, extractor, sample_images), restart)
    codebook = outputs.partial / "codebook.safetensors"
    started = time.perf_counter()
    with Workers(source, extractor, min(thread_count(n_jobs), len(source.items))) as workers:
        if not codebook.exists():
            if not hasattr(extractor, "encoder_"):
                sample = _sample(source, extractor, workers, on_error, sample_images, verbose)
                extractor = clone(extractor).fit_descriptors(sample)
            extractor.save(codebook)
        n_dims = load(codebook).n_dims_
        learnt = time.perf_counter()
        with RowFile(outputs.partial, n_dims) as rows:
            n_before = len(rows.done)
            if n_before:
                say(f"resuming: {n_before} of {len(source.items)} files are done", verbose)
            _encode_rest(source, codebook, workers, rows, on_error, verbose)
            rows.finish()
            done, n_rows = rows.done, rows.n_rows
    if n_rows == 0:
        shutil.rmtree(outputs.partial)  # so that files that are mended are tried again
        raise MediaError(f"{source.root}: none of its {len(source.items)} files could be decoded.")
    _publish(source, done, outputs)
    return Summary(
        outputs=outputs,
        n_rows=n_rows,
        n_dims=n_dims,
        skipped=[line["reason"] for line in done if not line["ok"]],
        empty=[item.file for item, line in zip(source.items, done, strict=True) if line["ok"] and line.get("reason")],
        seconds_codebook=learnt - started,
        seconds_encoding=time.perf_counter() - learnt,
        n_encoded=len(done) - n_before,
    )


def _job(source: Source, extractor: FeatureExtractor, sample_images: int) -> str:
    """Everything that the vectors depend on, as one digest."""
    parts: list[Any] = [str(source.root.resolve()), [(item.file, item.label) for item in source.items]]
    for part in (extractor.descriptor, extractor.encoder):
        params = {} if part is None else part.get_params(deep=False)
        params.pop("n_jobs", None)
        parts.append([type(part).__name__, params])
    parts += [extractor.max_side, sample_images]
    digest = hashlib.sha256(json.dumps(parts, default=str).encode())
    if hasattr(extractor, "encoder_"):
        for name in extractor.encoder_._saved_arrays:
            digest.update(np.ascontiguousarray(getattr(extractor.encoder_, name)).tobytes())
    return digest.hexdigest()


def _open_partial(outputs: Outputs, job: str, restart: bool) -> None:
    """Make the folder of the unfinished run, or check that the one there belongs to the same job."""
    if outputs.vectors.suffix != ".npy":
        raise ValueError(
            f"The 'output' parameter must be a path that ends in .npy. Got {str(outputs.vectors)!r} instead."
        )
    if outputs.vectors.is_dir():
        raise IsADirectoryError(f"cannot write {outputs.vectors}: it is a directory")
    if not outputs.vectors.parent.is_dir():
        raise FileNotFoundError(f"cannot write {outputs.vectors}: there is no folder {outputs.vectors.parent}")
    if restart:
        shutil.rmtree(outputs.partial, ignore_errors=True)
    try:
        outputs.partial.mkdir(exist_ok=True)
    except OSError as error:
        raise type(error)(f"cannot write {outputs.vectors}: {error.strerror or error}") from error
    note = outputs.partial / "job.txt"
    if not (outputs.partial / "codebook.safetensors").exists():  # nothing worth keeping
        note.write_text(job)
    elif not note.exists() or note.read_text() != job:
        raise ValueError(
            f"{outputs.partial} is left from a run with other files or settings; "
            "repeat that one, or discard it with restart (--restart)."
        )


def _sample(
    source: Source, extractor: FeatureExtractor, workers: Workers, on_error: str, sample_images: int, verbose: int
) -> list[Any]:
    """Descriptors to learn from, as many of each drawn file as make up the encoder's `max_descriptors`."""
    encoder = extractor.unfitted_encoder()
    seed = encoder.random_state or 0
    n_drawn = min(sample_images, len(source.items))
    drawn = np.sort(np.random.default_rng(seed).choice(len(source.items), n_drawn, replace=False))
    per_file = -(-encoder.max_descriptors // n_drawn)
    sampled = []
    with progress("descriptors", n_drawn, verbose) as advance:
        for result in workers.sample(drawn.tolist(), per_file, seed):
            if result.array is not None:
                sampled.append(result.array)
            elif on_error == "fail":
                raise MediaError(result.reason)
            advance(1)
    say(f"learning the codebook from {sum(map(len, sampled))} descriptors of {len(sampled)} files", verbose)
    return sampled


def _encode_rest(source: Source, codebook: Path, workers: Workers, rows: RowFile, on_error: str, verbose: int) -> None:
    """Encode the files that are not done, in order; each is on disk before the next is taken."""
    rest = range(len(rows.done), len(source.items))
    with progress("encoding", len(rest), verbose) as advance:
        for result in workers.encode(rest, codebook):
            if result.array is None and on_error == "fail":
                raise MediaError(result.reason)
            rows.append(result.array, result.reason)
            if result.array is None:
                print(f"skipped {result.reason}", file=sys.stderr)
            elif result.reason == NO_DESCRIPTORS:
                file = source.items[len(rows.done) - 1].file
                print(f"warning: {file}: {NO_DESCRIPTORS}, its vector is zero", file=sys.stderr)
            advance(1)


def _publish(source: Source, done: list[dict[str, Any]], outputs: Outputs) -> None:
    """Write what stands beside the vectors and move everything into place, the vectors last."""
    kept = [item for item, line in zip(source.items, done, strict=True) if line["ok"]]
    folder = outputs.partial
    np.save(folder / "labels.npy", np.array([item.label for item in kept], dtype=np.int64))
    (folder / "files.txt").write_text("".join(item.file + "\n" for item in kept))
    names = source.class_names()
    (folder / "classes.txt").write_text("".join(f"{label}\t{name}\n" for label, name in names.items()))
    os.replace(folder / "labels.npy", outputs.labels)
    os.replace(folder / "files.txt", outputs.files)
    os.replace(folder / "classes.txt", outputs.classes)
    os.replace(folder / "codebook.safetensors", outputs.codebook)
    os.replace(folder / "rows.npy", outputs.vectors)
    shutil.rmtree(folder)
