"""Duplicates in an album: files of the same bytes, photos of the same picture, and photos that are only alike."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from projbank.album.album import Album
from projbank.album.compare import LOOK_BITS, SIDE, Points, is_same_picture, mirrored, points_of
from projbank.album.learn import NAMES
from projbank.album.store import Content, File
from projbank.album.thumbs import photo_bytes
from projbank.features.media import MediaError, read_photo
from projbank.features.workers import one_opencv_thread
from projbank.progress import progress
from projbank.search import HammingIndex
from projbank.threads import blas_threads

SAME, NEAR, SIMILAR = "same", "near", "similar"
KINDS = (SAME, NEAR, SIMILAR)
LOOK_ALIKE = 64
"""Fingerprints that differ in so many of 256 comparisons, or fewer, may be of the same picture."""
CODE_ALIKE = {"sift": 0.34, "net": 0.25}
"""Codes that differ in this share of their bits, or less, may be of the same picture."""
NEIGHBOURS = 8
"""Candidates of each photo that are looked at."""
SIMILAR_FROM = 0.5
"""Similarity from which photos that are not the same picture are called similar."""
KEPT = 4096
"""Photos whose key points are held at a time."""


@dataclass(frozen=True)
class Group:
    """Files that belong together.

    `kind` is "same" (the same bytes), "near" (the same picture: scaled, cropped, compressed, mirrored, brightened), or
    "similar". The first path is the one best kept: most pixels, then most bytes, then the oldest, then the first name.
    """

    kind: str
    paths: tuple[str, ...]
    contents: tuple[int, ...]

    @property
    def best(self) -> str:
        """Path of the photo best kept."""
        return self.paths[0]


def find_duplicates(album: Album, *, similar_from: float = SIMILAR_FROM, verbose: int = 0) -> list[Group]:
    """Group the photos of an album, the largest groups of each kind first.

    Parameters
    ----------
    album : one that is up to date; files that have changed since are left out
    similar_from : least similarity of photos that are called similar; above 1 none are
    verbose : whether to show a progress bar on a terminal
    """
    files = {number: album.current_files(number) for number in album.codes().ids.tolist()}
    files = {number: found for number, found in files.items() if found}
    contents = {number: content for number in files if (content := album.store.content(number)) is not None}
    near_pairs, alike_pairs = _pairs(album, contents, similar_from, verbose)
    near = _groups(near_pairs)
    together = {number: i for i, group in enumerate(near) for number in group}
    similar = _stars(pair for pair in alike_pairs if together.get(pair[0], -1) != together.get(pair[1], -2))
    same = [[number] for number, found in files.items() if len(found) > 1]
    return [
        _group(kind, group, files, contents)
        for kind, found in ((SAME, same), (NEAR, near), (SIMILAR, similar))
        for group in sorted(found, key=lambda group: (-sum(len(files[number]) for number in group), group))
    ]


def _group(kind: str, group: Iterable[int], files: dict[int, list[File]], contents: dict[int, Content]) -> Group:
    def rank(entry: tuple[int, File]) -> tuple[int, int, int, str]:
        number, file = entry
        content = contents[number]
        return -content.width * content.height, -file.size, file.mtime_ns, file.path

    entries = sorted(((number, file) for number in group for file in files[number]), key=rank)
    return Group(kind, tuple(file.path for _, file in entries), tuple(number for number, _ in entries))


def _pairs(
    album: Album, contents: dict[int, Content], similar_from: float, verbose: int
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Pairs of the same picture, and pairs that are only alike."""
    straight, turned, alike = _candidates(album, contents, similar_from)
    points_of_photo = _reader(album, contents)
    near: list[tuple[int, int]] = []
    found: set[tuple[int, int]] = set()
    candidates = sorted({(*pair, False) for pair in straight} | {(*pair, True) for pair in turned})
    with (
        progress("comparing pairs of photos", len(candidates), verbose) as advance,
        blas_threads(1),  # the products are small
        one_opencv_thread(),
    ):
        for one, other, mirror in candidates:
            if (one, other) not in found:
                first, second = points_of_photo(one), points_of_photo(other)
                if first and second and is_same_picture(first, second.mirrored() if mirror else second):
                    near.append((one, other))
                    found.add((one, other))
            advance(1)
    return near, sorted(alike - found)


def _candidates(
    album: Album, contents: dict[int, Content], similar_from: float
) -> tuple[set[tuple[int, int]], set[tuple[int, int]], set[tuple[int, int]]]:
    """Pairs that may be of the same picture, as they lie or mirrored, and pairs that are similar enough."""
    codes = album.codes()
    n_bits = codes.model.n_bits
    kept = np.isin(codes.ids, list(contents))
    ids, stored = codes.ids[kept], codes.index.codes[kept]
    alike_from = CODE_ALIKE[NAMES[codes.model.describer]]
    by_code = _neighbours(ids, stored, stored, n_bits)
    straight = {pair for pair, distance in by_code.items() if distance <= alike_from * n_bits}
    alike = {pair for pair, distance in by_code.items() if 1 - 2 * distance / n_bits >= similar_from}
    looked, looks = album.store.looks()
    kept = np.isin(looked, ids)
    looked, looks = looked[kept], looks[kept]
    straight |= {pair for pair, d in _neighbours(looked, looks, looks, LOOK_BITS).items() if d <= LOOK_ALIKE}
    turned = {pair for pair, d in _neighbours(looked, looks, mirrored(looks), LOOK_BITS).items() if d <= LOOK_ALIKE}
    return straight, turned, alike


def _neighbours(
    ids: NDArray[np.int64], codes: NDArray[np.uint8], queries: NDArray[np.uint8], n_bits: int
) -> dict[tuple[int, int], int]:
    """Distance of each pair in which one is among the nearest of the other."""
    index = HammingIndex(codes, ids=ids, n_bits=n_bits)
    distances, found = index.search(queries, k=min(NEIGHBOURS + 1, len(ids)))
    pairs: dict[tuple[int, int], int] = {}
    for one, near, row in zip(ids.tolist(), found.tolist(), distances.tolist(), strict=True):
        for other, distance in zip(near, row, strict=True):
            if other != one:
                pairs[min(one, other), max(one, other)] = distance
    return pairs


def _groups(pairs: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Numbers that are connected by pairs, each group in order."""
    ends = np.array(list(pairs), np.int64).reshape(-1, 2)
    numbers, places = np.unique(ends, return_inverse=True)
    one, other = places.reshape(-1, 2).T
    graph = sp.coo_array((np.ones(len(ends)), (one, other)), shape=(len(numbers), len(numbers)))
    groups: dict[int, list[int]] = defaultdict(list)
    for number, group in zip(numbers.tolist(), connected_components(graph, directed=False)[1].tolist(), strict=True):
        groups[group].append(number)
    return list(groups.values())


def _stars(pairs: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Groups in which all are paired with one: chains of pairs would join photos that have nothing in common."""
    partners: dict[int, set[int]] = defaultdict(set)
    for one, other in pairs:
        partners[one].add(other)
        partners[other].add(one)
    groups, left = [], set(partners)
    for centre in sorted(partners, key=lambda number: (-len(partners[number]), number)):
        members = partners[centre] & left
        if centre in left and members:
            groups.append(sorted({centre, *members}))
            left -= {centre, *members}
    return groups


def _reader(album: Album, contents: dict[int, Content]) -> Callable[[int], Points | None]:
    """Return what makes a photo ready to be compared, or None where it has changed; the last photos are kept."""

    @functools.lru_cache(maxsize=KEPT)
    def read(number: int) -> Points | None:
        try:
            data = photo_bytes(album, number, contents[number].hash)
            return points_of(read_photo(data, "photo", SIDE, colour=False).image)
        except (OSError, MediaError):
            return None

    return read
