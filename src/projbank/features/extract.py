"""From a data set to a file of vectors: learn a codebook, encode every file, resume where a run was cut off."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from projbank.features.extractor import FeatureExtractor
from projbank.features.media import MAX_PIXELS, MediaError
from projbank.features.outputs import Outputs, Plan, Previous, header, is_same
from projbank.features.readers import Source
from projbank.features.rowfile import RowFile
from projbank.features.tasks import State, encode, process_count, refuse, sample_descriptors
from projbank.features.workers import Processes
from projbank.integrity import add_note
from projbank.models.file import load
from projbank.params import check_choice, check_int
from projbank.progress import progress, say
from projbank.unfinished import Unfinished

__all__ = ["SAMPLE_IMAGES", "Outputs", "Summary", "extract"]

SAMPLE_IMAGES = 2000


@dataclass(frozen=True)
class Summary:
    """What an extraction did."""

    n_rows: int
    n_dims: int
    skipped: list[str] = field(default_factory=list)  # one reason per file, which names it
    empty: list[str] = field(default_factory=list)  # files without descriptors
    seconds_codebook: float = 0.0
    seconds_encoding: float = 0.0
    n_encoded: int = 0  # files of this run, without those that an earlier one had done
    n_classes: int = 0  # 0 where no file has a label
    changes: str = ""  # what is different since the run whose codebook was kept


def extract(
    source: Source,
    extractor: FeatureExtractor,
    output: str | os.PathLike[str],
    *,
    on_error: str = "fail",
    sample_images: int = SAMPLE_IMAGES,
    restart: bool = False,
    relearn: bool = False,
    force: bool = False,
    max_pixels: int = MAX_PIXELS,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> Summary:
    """Encode every file of a data set into a `.npy` file, with labels, file names and codebook beside it.

    Everything is written to the folder ``<output>.partial`` and moved when it is whole. A run that was cut off is taken
    up by calling again with the same arguments; files that are done are not done again. Where the vectors exist, their
    codebook is kept: only new and changed files are described, rows keep their order, and new ones follow.

    Parameters
    ----------
    source : data set, see `open_source`
    extractor : a fitted one is used as it is; otherwise its codebook is learnt from the data set
    output : path of the vectors, ending in .npy
    on_error : "fail" raises MediaError for a file that can't be decoded, "skip" reports it and leaves it out
    sample_images : files that the codebook is learnt from, drawn at random
    restart : discard what a run with other arguments left behind
    relearn : start over: replace vectors and codebook that exist
    force : replace files of another kind that stand where the outputs go
    max_pixels : a picture or frame of more pixels counts as one that can't be decoded
    n_jobs : worker processes at most; None is one per core
    """
    outputs = Outputs(Path(output))
    check_choice("extract", "on_error", on_error, ("fail", "skip"))
    check_int("extract", "sample_images", sample_images, 1)
    check_int("extract", "max_pixels", max_pixels, 1)
    if extractor.media != source.media:
        raise ValueError(f"{source.root} holds {source.media}s, but the descriptor is one of {extractor.media}s.")
    extractor.check()
    unfinished = outputs.unfinished()
    unfinished.check()
    with unfinished.locked():
        if not force:
            outputs.check_kinds()
        previous = None if relearn else Previous.read(outputs)
        if previous is not None:
            previous.check_same(extractor)
            extractor = previous.extractor
        plan = Plan.make(source, previous)
        changes = "" if previous is None else plan.summary()
        if changes:
            say(changes, verbose)
        if restart:
            unfinished.discard()
        if plan.is_empty and outputs.record.exists() and not unfinished.is_begun():
            return Summary(len(plan.rows), extractor.n_dims_, n_classes=len(source.class_names()), changes=changes)
        job = _job(source, extractor, plan, sample_images)
        if not unfinished.is_begun():
            unfinished.start(job)
        elif not unfinished.is_of(job):
            raise ValueError(
                f"{unfinished.folder} is left from a run with other files or settings; "
                "repeat that one, or discard it with restart (--restart)."
            )
        state = State(replace(source, items=()), extractor, max_pixels)
        with Processes(state, process_count(n_jobs, len(plan.todo), source.media)) as processes:
            run = _Run(source, unfinished, plan, previous, processes, on_error, verbose)
            return run.finish(extractor, sample_images, changes)


@dataclass(frozen=True)
class _Run:
    source: Source
    unfinished: Unfinished
    plan: Plan
    previous: Previous | None
    processes: Processes
    on_error: str
    verbose: int

    def finish(self, extractor: FeatureExtractor, sample_images: int, changes: str) -> Summary:
        """Learn the codebook if there is none, encode what is not encoded, and move the files into place."""
        folder, items = self.unfinished.folder, [self.source.items[item] for item, _ in self.plan.rows]
        codebook = folder / "codebook.safetensors"
        started = time.perf_counter()
        if not codebook.exists():
            if not hasattr(extractor, "encoder_"):
                extractor = clone(extractor).fit_descriptors(self._sample(extractor, sample_images))
            extractor.save(codebook)
        extractor = load(codebook)
        learnt = time.perf_counter()
        named = {item.file: item for item in items}

        def holds(line: dict[str, Any]) -> bool:
            item = named.get(str(line.get("file")))
            return item is not None and is_same(self.source, item, line)

        with RowFile(folder, extractor.n_dims_, holds=holds) as rows:
            if rows.n_done:
                say(f"resuming: {rows.n_done} of {len(items)} files are done", self.verbose)
            n_encoded = self._encode(codebook, rows)
            rows.finish()
            done, n_rows = list(rows.lines()), rows.n_rows
        if n_rows == 0:
            self.unfinished.discard()  # so that files that are mended are tried again
            raise MediaError(f"{self.source.root}: none of its {len(items)} files could be decoded.")
        add_note(rows.rows_path, kind="vectors", made_by=extractor.identity())
        self._write_lists(extractor, done)
        self.unfinished.publish()
        return Summary(
            n_rows=n_rows,
            n_dims=extractor.n_dims_,
            skipped=[line["reason"] for line in done if not line["ok"]],
            empty=[item.file for item, line in zip(items, done, strict=True) if line["ok"] and line.get("reason")],
            seconds_codebook=learnt - started,
            seconds_encoding=time.perf_counter() - learnt,
            n_encoded=n_encoded,
            n_classes=len(self.source.class_names()),
            changes=changes,
        )

    def _sample(self, extractor: FeatureExtractor, sample_images: int) -> list[Any]:
        """Descriptors of files that are drawn at random."""
        encoder, items = extractor.unfitted_encoder(), self.source.items
        rng = np.random.default_rng(encoder.random_state or 0)
        drawn = np.sort(rng.choice(len(items), min(sample_images, len(items)), replace=False)).tolist()
        numbered = [(number, items[number]) for number in drawn]
        return sample_descriptors(self.processes, numbered, encoder, self.on_error, self.verbose)

    def _encode(self, codebook: Path, rows: RowFile) -> int:
        """Copy rows that are kept and encode the others, in order; each is on disk before the next is taken."""
        rest = self.plan.rows[rows.n_done :]
        written = codebook.stat().st_mtime_ns
        calls = [(self.source.items[index], codebook, written) for index, row in rest if row is None]
        results = self.processes.run(encode, calls)
        n_encoded = 0
        rows.reserve(len(rest))
        with progress("encoding", len(calls), self.verbose) as advance:
            for index, row in rest:
                item = self.source.items[index]
                if row is not None and self.previous is not None and self.previous.vectors is not None:
                    rows.append(self.previous.vectors[row], **self.previous.lines[row])
                else:
                    result = next(results)
                    if result.array is None:
                        refuse(result.reason, self.on_error)
                    elif result.reason:
                        print(f"warning: {item.file}: {result.reason}, its vector is zero", file=sys.stderr)
                    rows.append(result.array, result.reason, file=item.file, **(result.stamp or {}))
                    n_encoded += 1
                    advance(1)
        return n_encoded

    def _write_lists(self, extractor: FeatureExtractor, done: list[dict[str, Any]]) -> None:
        """Write what stands beside the vectors."""
        folder = self.unfinished.folder
        rows = zip(self.plan.rows, done, strict=True)
        kept = [self.source.items[item] for (item, _), line in rows if line["ok"]]
        np.save(folder / "labels.npy", np.array([item.label for item in kept], dtype=np.int64))
        add_note(folder / "labels.npy", kind="labels")
        _write(folder / "files.txt", (item.file for item in kept))
        _write(folder / "classes.txt", (f"{label}\t{name}" for label, name in self.source.class_names().items()))
        _write(folder / "record.jsonl", map(json.dumps, (header(extractor), *done)))


def _job(source: Source, extractor: FeatureExtractor, plan: Plan, sample_images: int) -> str:
    """Everything that the vectors depend on, as one digest."""
    parts = [
        str(source.root.resolve()),
        [(item.file, item.label) for item in source.items],
        extractor.settings(),
        extractor.identity() if hasattr(extractor, "encoder_") else sample_images,
        plan.rows,
    ]
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()


def _write(path: Path, lines: Any) -> None:
    path.write_text("".join(line + "\n" for line in lines), "utf-8")
