"""What an album learns from a sample of its photos: a codebook, if its describer has one, and a bank."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from projbank.album import describe
from projbank.album.store import Content
from projbank.bank import ProjectionBank
from projbank.features.coder import Describer, MediaCoder
from projbank.features.extractor import FeatureExtractor, photo_extractor
from projbank.features.net import NAME, ConvMaps
from projbank.features.readers import Item
from projbank.features.tasks import State, descriptors, process_count
from projbank.features.workers import Processes

MOST = 2000
"""Photos that are learnt from."""
FEWEST = 64
"""From fewer photos a bank of random signs is as good as any."""
DESCRIPTORS = 200_000
"""Local descriptors that the codebook is learnt from."""
PER_ENTRY, LEAST_ENTRIES = 50, 8
"""Descriptors per Gaussian of the codebook, and how many Gaussians it has at least."""
SEED = 0
SIFT = "dense SIFT, Fisher vectors"
NAMES = {SIFT: "sift", NAME: "net"}

Stage = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]
"""Opens a stage of the work of so many steps, and gives what to call after each."""


@dataclass(frozen=True)
class Learnt:
    """Describer and bank, and the photos that were described on the way."""

    coder: MediaCoder
    name: str
    described: list[tuple[str, Content]]
    vectors: NDArray[np.float32]


def learn(root: Path, paths: list[str], describer: str, n_bits: int, n_jobs: int | None, stage: Stage) -> Learnt | None:
    """Learn from at most `MOST` photos, drawn at random; None where none can be read.

    Parameters
    ----------
    root, paths : the folder, and its photos
    describer : "sift", "net", or "auto": the net where it is installed
    n_bits : bits of a code
    n_jobs : processes
    stage : opens a stage of the work
    """
    places = np.random.default_rng(SEED).choice(len(paths), min(MOST, len(paths)), replace=False)
    drawn = [paths[place] for place in np.sort(places)]
    n_processes = process_count(n_jobs, len(drawn))
    if describer == "net" or (describer == "auto" and ConvMaps.is_installed()):
        net = ConvMaps()
        net.check()
        chosen: Describer = net
        name = NAME
    else:
        extractor = _learn_codebook(root, drawn, n_processes, stage)
        if extractor is None:
            return None
        chosen, name = extractor, SIFT
    described, vectors = _describe(root, drawn, chosen, n_processes, stage)
    if not described:
        return None
    with stage("learning the bank", 0):
        bank = _bank(n_bits, vectors, n_jobs)
    return Learnt(MediaCoder(chosen, bank), name, described, vectors)


def _learn_codebook(root: Path, drawn: list[str], n_processes: int, stage: Stage) -> FeatureExtractor | None:
    """Learn Fisher vectors of fewer Gaussians where photos are few; None where they have next to no texture."""
    per_photo = -(-DESCRIPTORS // max(len(drawn), 200))
    extractor, bags = photo_extractor(random_state=SEED), []
    with (
        stage("learning the codebook", len(drawn)) as advance,
        Processes(State(describe.photos_in(root), extractor), n_processes) as processes,
    ):
        calls = ((Item(path), per_photo, [SEED, *describe.digest(path.encode())[:4]]) for path in drawn)
        for result in processes.run(descriptors, calls):
            if result.array is not None and len(result.array):
                bags.append(result.array)
            advance(1)
        wanted: Any = extractor.unfitted_encoder()
        possible = sum(map(len, bags)) // PER_ENTRY
        if possible < LEAST_ENTRIES:
            return None
        extractor.encoder = clone(wanted).set_params(n_components=min(wanted.n_components, possible))
        return extractor.fit_descriptors(bags)


def _describe(
    root: Path, drawn: list[str], describer: Describer, n_processes: int, stage: Stage
) -> tuple[list[tuple[str, Content]], NDArray[np.float32]]:
    vectors = np.empty((len(drawn), describer.n_dims_), dtype=np.float32)
    described: list[tuple[str, Content]] = []
    with (
        stage("describing a sample", len(drawn)) as advance,
        Processes(State(describe.photos_in(root), describer), n_processes) as processes,
    ):
        for path, result in zip(drawn, processes.run(describe.vector, ((path,) for path in drawn)), strict=True):
            if result.content is not None and result.array is not None:
                vectors[len(described)] = result.array
                described.append((path, result.content))
            advance(1)
    return described, vectors[: len(described)]


def _bank(n_bits: int, vectors: NDArray[np.float32], n_jobs: int | None) -> ProjectionBank:
    bank = ProjectionBank(n_bits=n_bits, random_state=SEED, n_jobs=n_jobs)
    known = vectors[vectors.any(axis=1)]
    if len(known) < FEWEST:
        bank.set_params(solver="random")
        known = known if len(known) > 1 else np.concatenate([known, np.zeros_like(vectors[:2])])
    if isinstance(bank.n_neighbors, int) and bank.n_neighbors >= len(known):
        bank.set_params(n_neighbors=len(known) - 1)
    return bank.fit(known)
