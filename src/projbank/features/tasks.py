"""What becomes of one file of a data set: descriptors, a vector or a code, or the reason why there is none."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from projbank.features.coder import MediaCoder
from projbank.features.encoder import Encoder
from projbank.features.extractor import FeatureExtractor
from projbank.features.media import MAX_PIXELS, MediaError, read_photo, video_frames
from projbank.features.readers import Item, Source
from projbank.features.workers import Processes
from projbank.models.file import load
from projbank.progress import progress, say
from projbank.threads import thread_count

NO_DESCRIPTORS = "no descriptors"
PER_PROCESS = {"image": 8, "video": 1}
"""Files that are worth the start of another process, which takes more than a second."""


class State(NamedTuple):
    """What every task needs: where files are read, and what describes, or describes and codes, them."""

    source: Source
    tool: Any
    max_pixels: int = MAX_PIXELS


class Result(NamedTuple):
    """What became of one file: an array, or none and the reason; a vector of zeros has a reason too."""

    array: NDArray[Any] | None
    reason: str = ""
    stamp: Any = None
    """Size and time of change of the file, by which it is known again, where the task gets or takes them."""


def process_count(n_jobs: int | None, n_files: int, media: str = "image") -> int:
    """Number of processes that describe so many files; one for each core if `n_jobs` is None."""
    return min(thread_count(n_jobs), max(1, n_files // PER_PROCESS[media]))


def descriptors(state: State, item: Item, most: int, seed: list[int]) -> Result:
    """Local descriptors of a file, at most so many, drawn at random."""
    result = _described(state, item, state.tool.descriptors)
    if result.array is None or len(result.array) <= most:
        return result
    chosen = np.random.default_rng(seed).choice(len(result.array), most, replace=False)
    return Result(result.array[np.sort(chosen)])


def vector(state: State, item: Item) -> Result:
    """Long vector of a file."""
    result = _described(state, item, state.tool.vector)
    return result if result.array is None or result.array.any() else result._replace(reason=NO_DESCRIPTORS)


def code(state: State, item: Item, stamp: list[Any]) -> Result:
    """Code of a file, with the stamp that it was found with."""
    coder: MediaCoder = state.tool
    result = vector(state._replace(tool=coder.describer), item)._replace(stamp=stamp)
    return result if result.array is None else result._replace(array=coder.code(result.array))


def encode(state: State, item: Item, codebook: Path, written: int) -> Result:
    """Long vector of a file by the codebook in another, which was written at that time; and the file's stamp."""
    try:
        stamp = state.source.stamp(item)  # before it is read: a change meanwhile is seen by the next run
        stamp["crc"] = state.source.checksum(item)
    except OSError:
        stamp = {}  # `vector` says why
    return vector(state._replace(tool=_extractor(codebook, written)), item)._replace(stamp=stamp)


@functools.lru_cache(maxsize=1)
def _extractor(codebook: Path, written: int) -> FeatureExtractor:
    """Read the codebook once per process; files are spread over processes, so that each needs one thread."""
    extractor: FeatureExtractor = load(codebook)
    extractor.encoder_.set_params(n_jobs=1)
    return extractor


def _described(state: State, item: Item, describe: Callable[[Any], NDArray[Any]]) -> Result:
    try:
        with _opened(state, item) as picture:
            return Result(describe(picture))
    except MediaError as error:
        return Result(None, str(error))
    except OSError as error:
        return Result(None, f"{item.file}: can't be read ({error.strerror or error}, {state.source.root / item.file}).")
    except MemoryError:
        return Result(None, f"{item.file}: is too large for the memory (make it smaller by max_side).")


@contextlib.contextmanager
def _opened(state: State, item: Item) -> Iterator[Any]:
    """Picture, or frames of a video, as the describer wants it."""
    source, describer, most = state
    if describer.media == "image":
        data, colour = source.read(item), describer.colour
        yield read_photo(data, item.file, describer.max_side, colour=colour, max_pixels=most).image
    else:
        with source.local_file(item) as path:
            yield video_frames(path, item.file, describer.max_side, most)


def refuse(reason: str, on_error: str) -> None:
    """Raise MediaError for a file that can't be described, or say that it is skipped."""
    if on_error == "fail":
        raise MediaError(reason)
    print(f"skipped {reason}", file=sys.stderr)


def sample_descriptors(
    processes: Processes, items: Iterable[tuple[int, Item]], encoder: Encoder, on_error: str, verbose: int
) -> list[NDArray[np.float32]]:
    """Descriptors to learn from, as many of each numbered file as make up the encoder's `max_descriptors`."""
    items = list(items)
    per_file, sampled = -(-encoder.max_descriptors // len(items)), []
    calls = ((item, per_file, [encoder.random_state or 0, number]) for number, item in items)
    with progress("descriptors", len(items), verbose) as advance:
        for result in processes.run(descriptors, calls):
            if result.array is not None:
                sampled.append(result.array)
            elif on_error == "fail":
                raise MediaError(result.reason)
            advance(1)
    say(f"learning the codebook from {sum(map(len, sampled))} descriptors of {len(sampled)} files", verbose)
    return sampled
