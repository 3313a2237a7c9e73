"""Straight to codes: learn describer and bank from a sample of files, then code any number of files one by one."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from projbank.features.coder import Describer, MediaCoder
from projbank.features.extractor import FeatureExtractor
from projbank.features.listing import Listing
from projbank.features.media import MediaError
from projbank.features.readers import Item
from projbank.features.rowfile import RowFile
from projbank.features.tasks import State, code, process_count, refuse, sample_descriptors, vector
from projbank.features.workers import Processes
from projbank.integrity import add_note
from projbank.params import check_choice
from projbank.progress import progress, say
from projbank.unfinished import Unfinished


@dataclass(frozen=True)
class Summary:
    """What a coding did."""

    n_codes: int
    n_bits: int
    n_resumed: int  # files that an earlier run had done
    skipped: int
    empty: int  # files without descriptors


def learn_describer(
    listing: Listing,
    describer: Any,
    drawn: list[Item],
    *,
    on_error: str = "fail",
    n_jobs: int | None = None,
    verbose: int = 0,
) -> Any:
    """Learn the codebook of an extractor from drawn files; one that is fitted, or a net, is returned as it is."""
    if not isinstance(describer, FeatureExtractor) or hasattr(describer, "encoder_"):
        return describer
    describer.check()
    encoder, state = describer.unfitted_encoder(), State(listing, describer)
    with Processes(state, process_count(n_jobs, len(drawn), listing.media)) as processes:
        sampled = sample_descriptors(processes, enumerate(drawn), encoder, on_error, verbose)
    return clone(describer).fit_descriptors(sampled)


def vectors_of(
    listing: Listing,
    describer: Describer,
    drawn: list[Item],
    *,
    on_error: str = "fail",
    n_jobs: int | None = None,
    verbose: int = 0,
) -> NDArray[np.float32]:
    """Describe drawn files: (n, D) float32; with ``on_error="skip"`` without those that can't be read."""
    rows = np.empty((len(drawn), describer.n_dims_), dtype=np.float32)
    n_rows = 0
    with (
        Processes(State(listing, describer), process_count(n_jobs, len(drawn), listing.media)) as processes,
        progress("describing", len(drawn), verbose) as advance,
    ):
        for result in processes.run(vector, ((item,) for item in drawn)):
            if result.array is None:
                refuse(result.reason, on_error)
            elif result.array.any():
                rows[n_rows] = result.array
                n_rows += 1
            advance(1)
    return rows[:n_rows]


def code_files(
    listing: Listing,
    coder: MediaCoder,
    output: str | os.PathLike[str],
    *,
    on_error: str = "fail",
    n_jobs: int | None = None,
    verbose: int = 0,
) -> Summary:
    """Code every file of a data set, one after the other: only codes and names are written.

    `output` gets the codes, (n, ceil(n_bits / 8)) uint8, and `<output without .npy>.files.txt` a name a row. Until both
    are whole they are in `<output>.partial`; a run that was cut off goes on from there.

    Parameters
    ----------
    listing : the files
    coder : describer and bank
    output : path that ends in .npy
    on_error : "fail" raises MediaError for a file that can't be decoded, "skip" reports it and leaves it out
    n_jobs : worker processes at most; None is one per core
    """
    check_choice("code_files", "on_error", on_error, ("fail", "skip"))
    if coder.media != listing.media:
        raise ValueError(f"{listing.root} holds {listing.media}s, but the codes are of {coder.media}s.")
    target = Path(output)
    targets = {"files.txt": target.with_suffix(".files.txt"), "codes.npy": target}
    unfinished = Unfinished(target, targets, "job.txt")
    unfinished.check(inputs=(listing.root,))
    job = f"{listing.root.resolve()}\n{coder.identity()}\n"
    with unfinished.locked():
        folder = unfinished.folder
        if not unfinished.is_of(job):
            if unfinished.is_begun():
                print(f"discarding what a run with other files or another bank left in {folder}", file=sys.stderr)
            unfinished.start(job)
        holds, rest = compared(_stamps(listing))
        with RowFile(folder, (coder.n_bits_ + 7) // 8, "|u1", "codes.npy", holds=holds) as codes:
            summary = _code_rest(listing, coder, codes, rest, on_error, n_jobs, verbose)
            codes.finish()
            with open(folder / "files.txt", "w", encoding="utf-8") as file:
                file.writelines(line["stamp"][0] + "\n" for line in codes.lines() if line["ok"])
                file.flush()
                os.fsync(file.fileno())
        add_note(folder / "codes.npy", kind="codes", made_by=coder.identity(), n_bits=coder.n_bits_)
        unfinished.publish()
    return summary


def _code_rest(
    listing: Listing,
    coder: MediaCoder,
    codes: RowFile,
    rest: Iterator[list[Any]],
    on_error: str,
    n_jobs: int | None,
    verbose: int,
) -> Summary:
    """Code the files of these stamps."""
    total, n_done = listing.count(), codes.n_done
    if n_done:
        say(f"resuming: {n_done} of {total} files are done", verbose)
    with (
        Processes(State(listing, coder), process_count(n_jobs, total - n_done, listing.media)) as processes,
        progress("coding", total, verbose, done=n_done) as advance,
    ):
        for result in processes.run(code, ((Item(stamp[0]), stamp) for stamp in rest)):
            if result.array is None:
                refuse(result.reason, on_error)
            elif result.reason:
                text = f"{result.stamp[0]}: {result.reason}, its code is that of a zero vector"
                print(f"warning: {text}", file=sys.stderr)
            codes.append(result.array, result.reason, stamp=result.stamp)
            advance(1)
    told = [line["ok"] for line in codes.lines() if "reason" in line]
    empty, skipped = told.count(True), told.count(False)
    if not codes.n_rows:
        raise MediaError(f"{listing.root}: none of its {total} files could be decoded.")
    return Summary(codes.n_rows, coder.n_bits_, n_done, skipped, empty)


def _stamps(listing: Listing) -> Iterator[list[Any]]:
    """Name, size and time of every file; of one that can't be looked at only the name."""
    for item in listing:
        try:
            yield [item.file, *listing.stamp(item).values()]
        except OSError:
            yield [item.file]


def compared(stamps: Iterator[list[Any]]) -> tuple[Callable[[dict[str, Any]], bool], Iterator[list[Any]]]:
    """Whether a line of the journal agrees with the stamp [name, ...] of its file; and stamps of the other files."""
    other: list[list[Any]] = []

    def holds(line: dict[str, Any]) -> bool:
        stamp = next(stamps, None)
        if stamp is not None and stamp != line.get("stamp"):
            other.append(stamp)
        return stamp is not None and not other

    def rest() -> Iterator[list[Any]]:
        yield from other
        yield from stamps

    return holds, rest()
