"""The paper's tables and figures by name: which methods, lengths and seeds, and the whole plan over several sets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from projbank.evaluate.data import DataSet, split_sizes
from projbank.evaluate.results import ResultFile
from projbank.evaluate.retrieval import ORIGINAL, Cell, Retrieval, list_cells
from projbank.evaluate.runner import Experiment
from projbank.features.extract import Outputs
from projbank.methods import METHODS
from projbank.paper.action import Action
from projbank.paper.protocols import Cost, PairError, PrecisionRecallCurves
from projbank.paper.sets import SetFiles, note_set

KS = (10, 50, 100)
LAMBDAS = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0)
BASIS_SIZES = (100, 250, 500, 1000, 1500)

PAPER_METHODS = (
    *("pca", "pq", "pka", "rr+pq", "sign", "alpha0", "lsh", "sph", "bpbc", "cbe"),
    *("kmeans+itq", "randst+bpb", "bpb", "kbpb-poly", "kbpb-rbf"),
)
"""Rows of the paper's tables, in its order."""
BANKS = ("randst+bpb", "bpb", "kbpb-poly", "kbpb-rbf", "joint")


@dataclass(frozen=True)
class Settings:
    """What a user may change; None keeps a protocol's choice. `n_lengths` keeps only so many of the longest codes."""

    ratios: tuple[int, ...] | None = None
    n_lengths: int | None = None
    methods: tuple[str, ...] | None = None
    seeds: int | None = None
    train: int | None = None
    params: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    n_jobs: int | None = None


@dataclass(frozen=True)
class Job:
    """One protocol on one data set, with its methods, lengths and seeds settled."""

    name: str
    files: SetFiles
    data: DataSet
    main_results: ResultFile
    methods: tuple[str, ...]
    bits: tuple[int, ...]
    seeds: range
    settings: Settings

    def cells(self, *, original: bool = True) -> list[Cell]:
        """All methods at all lengths."""
        return list_cells([ORIGINAL] * original + list(self.methods), self.bits, self.settings.params)

    def build(self, kind: Callable[..., Experiment], cells: Sequence[Cell], **more: Any) -> Experiment:
        """Make an experiment of these cells; apart from the main file's own, results go to a file of the protocol."""
        results = self.main_results
        if self.name not in ("retrieval", "code-length"):
            assert results.path is not None
            results = ResultFile(results.path.with_suffix(f".{self.name}.json"), borrow=[results])
        return kind(self.data, cells, results, seeds=self.seeds, n_jobs=self.settings.n_jobs, **more)

    @property
    def sizes(self) -> dict[str, int | None]:
        """Numbers of queries and training vectors."""
        n_queries = self.files.n_queries(self.data.vectors.shape[0])
        return {"n_queries": n_queries, "n_train": self.settings.train or self.files.train}


def _precision(job: Job, cells: Sequence[Cell]) -> Experiment:
    ks = [k for k in KS if k <= job.data.vectors.shape[0] - (job.sizes["n_queries"] or 0)]
    return job.build(Retrieval, cells, ks=ks, asymmetric=True, name=job.name, **job.sizes)


def _retrieval(job: Job) -> Experiment:
    return _precision(job, job.cells())


def _soft(job: Job) -> Experiment:
    """Hard groups beside soft ones: k-means for the paper's banks, learnt ones for the joint bank."""
    cells: list[Cell] = []
    for n_bits in job.bits:
        for name in job.methods:
            given = dict(job.settings.params.get(name, {}))
            hard = given | ({"grouping": "learnt"} if name == "joint" else {})  # its own choice may be soft
            if "grouping" in METHODS[name]().get_params():
                cells += [(name, n_bits, hard), (name, n_bits, given | {"grouping": "soft"})]
    return _precision(job, cells)


def _sensitivity(job: Job) -> Experiment:
    """Precision against lambda, and of kernel banks against the number of basis samples, up to all training vectors."""
    cells: list[Cell] = []
    _, n_train = split_sizes(job.data.vectors.shape[0], job.sizes["n_queries"], job.sizes["n_train"])
    sizes = sorted({min(size, n_train) for size in BASIS_SIZES})
    for name in job.methods:
        given, known = job.settings.params.get(name, {}), METHODS[name]().get_params()
        for word, values in (("lam", LAMBDAS), ("n_basis", sizes)):
            if word in known:
                cells += [(name, n_bits, {**given, word: value}) for n_bits in job.bits for value in values]
    return _precision(job, cells)


def _action(job: Job) -> Experiment:
    return job.build(Action, job.cells(), folds=job.files.fold_rows(job.data.vectors.shape[0]))


@dataclass(frozen=True)
class Protocol:
    """A table or figure: methods (none: all), lengths as D / bits, number of seeds, and how its experiment is made."""

    build: Callable[[Job], Experiment]
    methods: tuple[str, ...]
    ratios: tuple[int, ...]
    seeds: int


PROTOCOLS: dict[str, Protocol] = {
    "retrieval": Protocol(_retrieval, (), (64, 32, 16, 8), 5),
    "cost": Protocol(
        lambda job: job.build(Cost, job.cells(original=False), n_train=job.sizes["n_train"]),
        ("rr", "rr+pq", "lsh", "bpbc", "cbe", "bpb", "kbpb-rbf", "joint"),
        (20, 16, 10, 8),
        1,
    ),
    "action": Protocol(
        _action,
        (*(name for name in PAPER_METHODS if name not in ("kmeans+itq", "randst+bpb")), "joint"),
        (20, 15, 10, 8),
        3,
    ),
    "code-length": Protocol(_retrieval, ("itq", "bpbc", "bpb", "joint"), (64, 32, 16, 8), 5),
    "pair-error": Protocol(
        lambda job: job.build(PairError, job.cells(), **job.sizes),
        ("bpb", "randst+bpb", "joint"),
        (64, 32, 16, 8, 4, 2),
        3,
    ),
    "soft": Protocol(_soft, ("bpb", "kbpb-rbf"), (64, 32, 16, 8, 4, 2, 1), 3),
    "pr-curves": Protocol(
        lambda job: job.build(PrecisionRecallCurves, job.cells(), **job.sizes), (*PAPER_METHODS, "joint"), (8,), 3
    ),
    "sensitivity": Protocol(_sensitivity, ("bpb", "kbpb-rbf"), (10,), 3),
}
"""What `projbank reproduce` knows."""


def plan(sets: Sequence[SetFiles], names: Sequence[str], out: Path, settings: Settings) -> list[Experiment]:
    """Experiments of all named `PROTOCOLS` on all sets that suit them, set by set; results go to folder `out`.

    The vectors of each set must be there (`prepare`). A set is passed over where it names other protocols only.
    `action` can draw folds, but for sets that have none it does so only where it is asked for by name.
    """
    opened = [(files, files.open()) for files in sets]  # a set that can't be read leaves no folder behind
    (out / "results").mkdir(parents=True, exist_ok=True)
    experiments = []
    for files, data in opened:
        main_results = ResultFile(out / "results" / f"{files.name}.json")
        has_folds = files.split is not None or files.folds is not None
        for name in files.only or names:
            if name not in names or (name == "action" and not (has_folds or files.only or list(names) == [name])):
                continue
            protocol = PROTOCOLS[name]
            dimensions = data.vectors.shape[1]
            lengths = sorted({max(1, dimensions // ratio) for ratio in settings.ratios or protocol.ratios})
            bits = lengths[-settings.n_lengths :] if settings.n_lengths else lengths
            methods = settings.methods or protocol.methods or tuple(METHODS)
            seeds = range(settings.seeds or protocol.seeds)
            experiment = protocol.build(Job(name, files, data, main_results, methods, tuple(bits), seeds, settings))
            if experiment.plan:
                experiments.append(experiment)
    for files, data in opened:
        note_set(out, files, data)  # only of what could be planned
    return experiments


def prepare(files: SetFiles, folder: Path, n_jobs: int | None, verbose: int) -> SetFiles:
    """Make the vectors of a set that names pictures or videos instead; a run that was cut off goes on."""
    if files.source is None:
        return files
    from projbank.features.extract import SAMPLE_IMAGES, extract
    from projbank.features.extractor import build_extractor
    from projbank.features.readers import open_source

    source = open_source(files.source)
    video = source.media == "video"
    outputs = Outputs(folder / f"{files.name}.npy")
    if not outputs.vectors.exists():
        folder.mkdir(parents=True, exist_ok=True)
        descriptors, components = ("trajectories", 200) if video else ("dense-sift", 250)
        extractor = build_extractor(descriptors, files.kind or "fv", files.components or components)
        sample = files.sample or SAMPLE_IMAGES
        extract(source, extractor, outputs.vectors, sample_images=sample, n_jobs=n_jobs, verbose=verbose)
    lists = files.source / "ucfTrainTestlist"
    folds = files.folds or (lists if lists.is_dir() else None)
    return replace(files, source=None, vectors=outputs.vectors, labels=None, files=None, folds=folds)
