"""Examples that can be seen: queries and their nearest pictures by floats, by our codes and by LSH."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from projbank.evaluate.data import DataSet, split_sizes
from projbank.evaluate.results import Record, ResultFile
from projbank.evaluate.retrieval import ORIGINAL, Cell, Rows, code_gallery, fit_method, plan_keys, rank_floats
from projbank.evaluate.runner import Experiment
from projbank.features.readers import Item, Source, open_source
from projbank.files import atomic_path
from projbank.methods import search

N_EXAMPLES, N_SHOWN = 6, 6
SIDE = 88
"""Longer side of a small picture in pixels."""


class Examples(Experiment):
    """Search with a few queries and keep small pictures of them and of what was found.

    The queries are drawn by the seed, of different classes where there are enough; nobody picks them.

    Parameters
    ----------
    data : vectors and labels
    cells : "original" and methods
    results : where records go
    files : file of each vector, a path inside `pictures`
    pictures : zip or folder of pictures or videos (of a video the middle frame is shown)
    thumbnails : folder that small pictures are written to, ROW.jpg
    seeds, n_queries, n_train, n_jobs : as in `Retrieval`
    """

    name = "examples"

    def __init__(
        self,
        data: DataSet,
        cells: Iterable[Cell],
        results: ResultFile,
        *,
        files: list[str],
        pictures: Path,
        thumbnails: Path,
        seeds: Iterable[int],
        n_queries: int | None = None,
        n_train: int | None = None,
        n_jobs: int | None = None,
    ) -> None:
        n_rows = data.vectors.shape[0]
        if len(files) != n_rows:
            raise ValueError(
                f"the list of files of {data.name} must have a line per vector ({n_rows}). Got {len(files)}."
            )
        n_queries, n_train = split_sizes(n_rows, n_queries, n_train)
        protocol = {"experiment": self.name, "queries": n_queries, "training": n_train, "shown": N_SHOWN}
        super().__init__(plan_keys(data, protocol, cells, seeds), results)
        self._rows, self._n_jobs = Rows(data, n_queries, n_train), n_jobs
        self._files, self._pictures, self._thumbnails = files, pictures, thumbnails
        self._source: Source | None = None

    def measure(self, key: Record) -> Record:
        """Rows and labels of the queries and of what was found."""
        rows = self._rows
        rows.load(key["seed"])
        chosen = choose_queries(rows.data.labels[rows.split.queries], key["seed"])
        if key["method"] == ORIGINAL:
            ids = rank_floats(rows, N_SHOWN, self._n_jobs)[chosen]
        else:
            method, _ = fit_method(key, rows, self._n_jobs)
            codes, _ = code_gallery(method, rows)
            ids = search(method, rows.queries[chosen], codes, N_SHOWN, n_jobs=self._n_jobs)[1]
        queries, found = rows.split.queries[chosen], rows.split.gallery[ids]
        for row in {*queries.tolist(), *found.ravel().tolist()}:
            self._write_thumbnail(row)
        labels = rows.data.labels
        return {
            "queries": queries.tolist(),
            "query_labels": labels[queries].tolist(),
            "found": found.tolist(),
            "found_labels": labels[found].tolist(),
        }

    def is_complete(self, record: Record) -> bool:
        """Whether the small pictures are still there."""
        rows = {*record["queries"], *(row for found in record["found"] for row in found)}
        return all((self._thumbnails / f"{row}.jpg").exists() for row in rows)

    def headline(self, record: Record) -> str:
        """How many of the shown results have the query's label."""
        pairs = zip(record["query_labels"], record["found_labels"], strict=True)
        right = sum(label == query for query, labels in pairs for label in labels)
        return f"{right} of {sum(map(len, record['found']))} shown are right"

    def close(self) -> None:
        """Let go of the rows."""
        self._rows.forget()
        self._source = None

    def _write_thumbnail(self, row: int) -> None:
        import cv2

        path = self._thumbnails / f"{row}.jpg"
        if path.exists():
            return
        if self._source is None:
            self._source = open_source(self._pictures)
        picture = read_picture(self._source, self._files[row])
        scale = SIDE / max(picture.shape[:2])
        size = (max(1, round(picture.shape[1] * scale)), max(1, round(picture.shape[0] * scale)))
        small = cv2.resize(picture, size, interpolation=cv2.INTER_AREA)
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(path) as temporary:
            temporary.write_bytes(cv2.imencode(".jpg", small, [cv2.IMWRITE_JPEG_QUALITY, 80])[1].tobytes())


def choose_queries(labels: NDArray, seed: int) -> NDArray[np.int64]:
    """Draw some queries, of different labels as long as there are new ones."""
    order = np.random.default_rng([seed, 1]).permutation(len(labels))
    _, first = np.unique(labels[order], return_index=True)
    fresh = np.sort(first)
    rest = np.setdiff1d(np.arange(len(order)), fresh)
    return order[np.concatenate([fresh, rest])[:N_EXAMPLES]]


def read_picture(source: Source, file: str) -> NDArray[np.uint8]:
    """Decode a picture in colour, or the middle frame of a video."""
    import cv2

    picture: Any
    if source.media == "video":
        with source.local_file(Item(file)) as path:
            capture = cv2.VideoCapture(str(path))
            capture.set(cv2.CAP_PROP_POS_FRAMES, int(capture.get(cv2.CAP_PROP_FRAME_COUNT)) // 2)
            _, picture = capture.read()
            capture.release()
    else:
        picture = cv2.imdecode(np.frombuffer(source.read(Item(file)), np.uint8), cv2.IMREAD_COLOR)
    if picture is None:
        raise ValueError(f"{source.root}: {file} can't be decoded.")
    return np.asarray(picture, np.uint8)
