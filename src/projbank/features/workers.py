"""Tasks of worker processes: describe and encode files."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from projbank.features.encoder import Encoder
from projbank.features.extractor import FeatureExtractor
from projbank.features.media import MAX_PIXELS, MediaError
from projbank.features.processes import Processes
from projbank.features.readers import Source
from projbank.models.file import load

NO_DESCRIPTORS = "no descriptors"


class Result(NamedTuple):
    """What became of one file: an array, or none and the reason; a zero vector has a reason too."""

    array: NDArray[np.float32] | None
    reason: str = ""
    stamp: dict[str, int] | None = None
    """Size, time of change and checksum of the file, as far as it has them."""


class _State(NamedTuple):
    source: Source
    extractor: FeatureExtractor
    max_pixels: int


class Workers(Processes[_State]):
    """Runs tasks on the files of a source, here (one job) or in worker processes; use as a context manager.

    Parameters
    ----------
    source : the data set
    extractor : descriptor settings; `encode` takes them and the encoder from a codebook file
    n_jobs : number of processes
    max_pixels : larger pictures and frames are refused
    """

    def __init__(self, source: Source, extractor: FeatureExtractor, n_jobs: int, max_pixels: int = MAX_PIXELS) -> None:
        super().__init__(_State(source, extractor, max_pixels), n_jobs)

    def encode(self, indices: Iterable[int], codebook: Path) -> Iterator[Result]:
        """Yield the vector of each file, in order."""
        written = codebook.stat().st_mtime_ns
        return self.run(_encode, [(i, codebook, written) for i in indices])

    def sample(self, indices: Iterable[int], per_file: int, seed: int) -> Iterator[Result]:
        """Yield at most `per_file` descriptors of each file, in order."""
        return self.run(_sample, [(i, per_file, seed) for i in indices])


def _encode(state: _State, index: int, codebook: Path, written: int) -> Result:
    item = state.source.items[index]
    try:
        stamp = state.source.stamp(item)  # before it is read: a change meanwhile is seen by the next run
        stamp["crc"] = state.source.checksum(item)
    except OSError:
        stamp = {}  # `_describe` says why
    encoder = _encoder(codebook, written)
    described = _describe(state, index)
    if described.array is None:
        return described._replace(stamp=stamp)
    if not len(described.array):
        return Result(np.zeros(encoder.n_dims_, dtype=np.float32), NO_DESCRIPTORS, stamp)
    return Result(encoder.transform([described.array])[0], "", stamp)


@functools.lru_cache(maxsize=1)
def _encoder(codebook: Path, written: int) -> Encoder:
    """Read the codebook once per process; images are spread over processes, so that each needs one thread."""
    extractor: FeatureExtractor = load(codebook)
    encoder: Encoder = extractor.encoder_.set_params(n_jobs=1)
    return encoder


def _sample(state: _State, index: int, per_file: int, seed: int) -> Result:
    described = _describe(state, index)
    if described.array is None or len(described.array) <= per_file:
        return described
    chosen = np.random.default_rng([seed, index]).choice(len(described.array), per_file, replace=False)
    return Result(described.array[np.sort(chosen)])


def _describe(state: _State, index: int) -> Result:
    item = state.source.items[index]
    try:
        return Result(state.extractor.describe_file(state.source, item, state.max_pixels))
    except MediaError as error:
        return Result(None, str(error))
    except OSError as error:
        return Result(None, f"{item.file}: can't be read ({error.strerror or error}, {state.source.root / item.file}).")
    except MemoryError:
        return Result(None, f"{item.file}: is too large for the memory (make it smaller by max_side).")
