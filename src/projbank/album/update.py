"""Bringing an album up to date: look at the folder, learn if there is nothing learnt yet, describe what is new.

The order of the steps makes any moment a good one to be killed at. A content is written with its code and its file in
one transaction; contents are forgotten last, so that moved files find theirs; a new model answers once all is coded.
"""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from projbank.album import describe
from projbank.album.describe import look_at
from projbank.album.learn import MOST, NAMES, learn
from projbank.album.store import OK, AlbumError, Content, File, Model, Store
from projbank.features.coder import MediaCoder
from projbank.features.readers import Item
from projbank.features.tasks import State, process_count
from projbank.features.workers import Processes
from projbank.models.file import load
from projbank.progress import progress

AT_ONCE = 64
"""Photos of one transaction."""
THUMBNAILS = "thumbnails"
"""Folder of small pictures, each named by the hash of its photo."""
OUTGROWN = 4
"""An album of so many times the photos that its codes were learnt from wants to learn again."""

Row = tuple[File | None, Content, bytes | None]
"""A content with its code, and the file that has it (None where that is in the album already)."""
Report = Callable[[str, int, int], None]
"""Gets a stage of the work, steps done and steps in all."""


@dataclass
class Update:
    """What an update did."""

    photos: int = 0
    described: int = 0
    copied: int = 0
    """Files that are new but whose contents were known: moved, copied or only touched."""
    gone: int = 0
    describer: str = ""
    n_bits: int = 0
    learnt_from: int = 0
    relearnt: bool = False
    others: Counter[str] = field(default_factory=Counter)
    problems: list[tuple[str, str]] = field(default_factory=list)
    outgrown: bool = False


@dataclass
class Updater:
    """One update of an album.

    Parameters
    ----------
    root : the folder of photos
    folder : where the album keeps its files
    store : its tables, open for writing
    describer : "auto", "sift" or "net", for an album that has learnt nothing yet
    n_bits : bits of a code, then
    n_jobs : processes
    verbose : whether to show progress bars
    report : gets the course of the work
    """

    root: Path
    folder: Path
    store: Store
    describer: str
    n_bits: int
    n_jobs: int | None = None
    verbose: int = 0
    report: Report | None = None

    def run(self, *, relearn: bool = False) -> Update:
        """Look at the folder, and do what there is to do."""
        found = look_at(self.root)
        self.store.see(found.files, found.problems)
        done = Update(others=found.others)
        done.gone = self.store.forget_gone()
        if _can_read_heic():
            self.store.forget_lacking()
        model = self.store.model()
        if model is not None:
            coder = self._coder(model)
            self._add_new(model, coder, done)
            self._code_all(model, coder, done)
            self.store.forget_unused()  # before a new model codes what no file has
        unfinished = self.store.unfinished()
        if unfinished is None and (relearn or model is None) and found.files:
            unfinished = self._learn(found.files, done)
        if unfinished is not None:
            done.relearnt = model is not None
            coder = self._coder(unfinished)
            if model is None:
                self.store.put("current", unfinished.version)  # there is no other to answer meanwhile
                self._add_new(unfinished, coder, done)
            self._code_all(unfinished, coder, done)
            for file in self.store.answer_by(unfinished):
                (self.folder / file).unlink(missing_ok=True)
        self.store.forget_unused()
        if done.gone or done.described:
            self._remove_thumbnails()
        return self._summary(done)

    def _remove_thumbnails(self) -> None:
        """Remove the thumbnails of photos that are not in the album any more."""
        for path in (self.folder / THUMBNAILS).glob("??/*.jpg"):
            with contextlib.suppress(ValueError):  # a file of someone else
                if self.store.content_id(bytes.fromhex(path.stem)) is None:
                    path.unlink(missing_ok=True)

    def _summary(self, done: Update) -> Update:
        model = self.store.model()
        done.photos, done.problems = self.store.count(), self.store.problems()
        if model is not None:
            done.describer, done.n_bits, done.learnt_from = model.describer, model.n_bits, model.learnt_from
            done.outgrown = done.photos >= OUTGROWN * model.learnt_from and model.learnt_from < MOST
        return done

    def _coder(self, model: Model) -> MediaCoder:
        coder: MediaCoder = load(self.folder / model.file)
        return coder

    def _learn(self, files: list[File], done: Update) -> Model:
        """Learn from a sample; the contents that are described on the way are added with their codes."""
        version = self.store.next_version()
        paths = [file.path for file in files]
        before = self.store.model()
        describer = NAMES[before.describer] if before and self.describer == "auto" else self.describer
        learnt = learn(self.root, paths, describer, self.n_bits, self.n_jobs, self._stage)
        if learnt is None:
            raise AlbumError(
                f"{self.root}: none of its {len(files)} photos can be described: damaged, or without texture."
            )
        name = f"model-{version}.safetensors"
        learnt.coder.save(self.folder / name)
        model = Model(version, name, learnt.coder.identity(), learnt.name, learnt.coder.n_bits_, len(learnt.described))
        codes = learnt.coder.bank.transform(learnt.vectors)
        stamps = {file.path: file for file in files}
        rows = [
            (stamps[path], content, code.tobytes())
            for (path, content), code in zip(learnt.described, codes, strict=True)
        ]
        with self.store.transaction():
            self.store.add_model(model)
            self.store.add(version, rows)
        done.described += len(rows)
        return model

    def _add_new(self, model: Model, coder: MediaCoder, done: Update) -> None:
        """Take in files that are new or changed; contents that are known keep their codes."""
        fresh: list[File] = []
        copies: list[tuple[File, int]] = []
        sizes = self.store.known_sizes()
        for file in self.store.changed():
            number = self._known(file) if file.size in sizes else None
            if number is None:
                fresh.append(file)
            else:
                copies.append((file, number))
        self.store.add_copies(copies)
        done.copied += len(copies)

        def rows() -> Iterator[Row]:
            for file, result in self._described(coder, fresh):
                if result.content is None:
                    self.store.add_problem(file.path, result.reason)
                    continue
                done.described += result.content.state == OK
                yield file, result.content, None if result.array is None else result.array.tobytes()

        self._add(model, rows())

    def _known(self, file: File) -> int | None:
        """Number of the content that a file has, if it is known."""
        try:
            return self.store.content_id(describe.digest(describe.photos_in(self.root).read(Item(file.path))))
        except OSError:  # `_described` says why
            return None

    def _code_all(self, model: Model, coder: MediaCoder, done: Update) -> None:
        """Code the contents that a model has not coded yet."""

        def rows() -> Iterator[Row]:
            for _, result in self._described(coder, self.store.without_code(model.version)):
                if result.content is None or result.array is None or self.store.content_id(result.content.hash) is None:
                    continue  # it has changed meanwhile: the next update sees that
                done.described += 1
                yield None, result.content, result.array.tobytes()

        self._add(model, rows())

    def _add(self, model: Model, rows: Iterator[Row]) -> None:
        """Add contents as they come, so many in one transaction."""
        while some := list(itertools.islice(rows, AT_ONCE)):
            self.store.add(model.version, some)

    def _described(self, coder: MediaCoder, files: list[File]) -> Iterator[tuple[File, describe.Result]]:
        """Describe and code files, in order."""
        if not files:
            return
        state = State(describe.photos_in(self.root), coder)
        with (
            self._stage("describing", len(files)) as advance,
            Processes(state, process_count(self.n_jobs, len(files))) as processes,
        ):
            for file, result in zip(files, processes.run(describe.code, ((file.path,) for file in files)), strict=True):
                yield file, result
                advance(1)

    @contextmanager
    def _stage(self, title: str, total: int) -> Iterator[Callable[[int], None]]:
        """Show the course of a stage on the terminal, and tell it to who listens."""
        counter = itertools.count(1)
        if self.report:
            self.report(title, 0, total)
        with progress(title, total, self.verbose if total else 0) as show:

            def advance(steps: int) -> None:
                show(steps)
                if self.report:
                    self.report(title, next(counter), total)

            yield advance


def _can_read_heic() -> bool:
    import importlib.util

    return importlib.util.find_spec("pillow_heif") is not None
