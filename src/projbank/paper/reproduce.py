"""The paper's tables and figures by name: which methods, lengths and seeds, and the whole plan over several sets."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
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
from projbank.paper.cost import Cost
from projbank.paper.curves import PrecisionRecallCurves
from projbank.paper.diagnosis import Diagnosis
from projbank.paper.examples import Examples
from projbank.paper.notes import note_set
from projbank.paper.pair_error import PairError
from projbank.paper.sets import SetFiles

KS = (10, 50, 100)
LAMBDAS = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0)
BASIS_SIZES = (100, 250, 500, 1000, 1500)
SOFT, LEARNT = "soft", "learnt"

PAPER_METHODS = (
    *("pca", "pq", "pka", "rr+pq", "sign", "alpha0", "lsh", "sph", "bpbc", "cbe"),
    *("kmeans+itq", "randst+bpb", "bpb", "kbpb-poly", "kbpb-rbf"),
)
"""Rows of the paper's tables, in its order."""
BANKS = ("bpb", "kbpb-poly", "kbpb-rbf", "joint")


@dataclass(frozen=True)
class Settings:
    """What a user may change for all protocols; None keeps a protocol's own choice.

    `ratios` are D / bits; `n_lengths` keeps only so many of the longest codes.
    """

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

    files: SetFiles
    data: DataSet
    main_results: ResultFile
    methods: tuple[str, ...]
    bits: tuple[int, ...]
    seeds: range
    params: Mapping[str, Mapping[str, Any]]
    n_train: int | None
    n_jobs: int | None

    def results(self, name: str) -> ResultFile:
        """Result file of a protocol, which may use the cells of the main file, those of `retrieval`."""
        return ResultFile(self.main_results.path.with_suffix(f".{name}.json"), borrow=[self.main_results])

    @property
    def n_queries(self) -> int:
        """Queries of a split."""
        return self.files.n_queries(self.data.vectors.shape[0])

    def cells(self, *, original: bool = True) -> list[Cell]:
        """All methods at all lengths."""
        return list_cells([ORIGINAL] * original + list(self.methods), self.bits, self.params)

    def split(self) -> dict[str, Any]:
        """What protocols that draw queries and training sets have in common."""
        return {"seeds": self.seeds, "n_queries": self.n_queries, "n_train": self.n_train, "n_jobs": self.n_jobs}


@dataclass(frozen=True)
class Protocol:
    """A table or figure: ratios are D / bits; methods that this version lacks are left out."""

    about: str
    build: Callable[[Job], Experiment]
    methods: tuple[str, ...]
    ratios: tuple[int, ...]
    seeds: int = 1
    suits: Callable[[SetFiles], bool] = lambda files: True


def _retrieval(job: Job, name: str = "retrieval") -> Experiment:
    return _precision(job, job.cells(), job.main_results, name)


def _precision(job: Job, cells: Iterable[Cell], results: ResultFile, name: str) -> Experiment:
    n_gallery = job.data.vectors.shape[0] - job.n_queries
    ks = [k for k in KS if k <= n_gallery]
    return Retrieval(job.data, cells, results, ks=ks, asymmetric=True, name=name, **job.split())


def _soft(job: Job) -> Experiment:
    """Hard groups beside soft ones: k-means for the paper's banks, learnt ones for the joint bank."""
    grouped = [name for name in job.methods if "grouping" in METHODS[name]().get_params()]
    cells: list[Cell] = []
    for n_bits in job.bits:
        for name in grouped:
            given = dict(job.params.get(name, {}))
            hard = given | ({"grouping": LEARNT} if name == "joint" else {})  # its own choice may be soft
            cells += [(name, n_bits, hard), (name, n_bits, given | {"grouping": SOFT})]
    return _precision(job, cells, job.results("soft"), "soft")


def _sensitivity(job: Job) -> Experiment:
    """Precision against lambda, and of kernel banks against the number of basis samples, up to all training vectors."""
    cells: list[Cell] = []
    _, n_train = split_sizes(job.data.vectors.shape[0], job.n_queries, job.n_train)
    sizes = sorted({min(size, n_train) for size in BASIS_SIZES})
    for name in job.methods:
        given, known = dict(job.params.get(name, {})), METHODS[name]().get_params()
        for word, values in (("lam", LAMBDAS), ("n_basis", sizes)):
            if word in known:
                cells += [(name, n_bits, given | {word: value}) for n_bits in job.bits for value in values]
    return _precision(job, cells, job.results("sensitivity"), "sensitivity")


def _cost(job: Job) -> Experiment:
    settings = {name: value for name, value in job.split().items() if name != "n_queries"}
    return Cost(job.data, job.cells(original=False), job.results("cost"), **settings)


def _action(job: Job) -> Experiment:
    folds = job.files.fold_rows(job.data.vectors.shape[0])
    return Action(job.data, job.cells(), job.results("action"), seeds=job.seeds, folds=folds, n_jobs=job.n_jobs)


def _curves(job: Job) -> Experiment:
    return PrecisionRecallCurves(job.data, job.cells(), job.results("pr-curves"), **job.split())


def _pair_error(job: Job) -> Experiment:
    return PairError(job.data, job.cells(), job.results("pair-error"), **job.split())


def _diagnosis(job: Job) -> Experiment:
    return Diagnosis(job.data, job.cells(original=False), job.results("diagnosis"), **job.split())


def _examples(job: Job) -> Experiment:
    assert job.files.pictures is not None
    return Examples(
        job.data,
        job.cells(),
        job.results("examples"),
        files=job.files.file_names(),
        pictures=job.files.pictures,
        thumbnails=job.main_results.path.parent.parent / "examples" / job.data.name,
        **job.split(),
    )


PROTOCOLS: dict[str, Protocol] = {
    "retrieval": Protocol("precision of all methods at four lengths", _retrieval, (), (64, 32, 16, 8), 5),
    "cost": Protocol(
        "bytes of the model, time of training and coding",
        _cost,
        ("rr", "rr+pq", "lsh", "bpbc", "cbe", "bpb", "kbpb-rbf", "joint"),
        (20, 16, 10, 8),
    ),
    "action": Protocol(
        "linear SVM on codes",
        _action,
        (*(name for name in PAPER_METHODS if name not in ("kmeans+itq", "randst+bpb")), "joint"),
        (20, 15, 10, 8),
        3,
        lambda files: files.split is not None or files.folds is not None,
    ),
    "code-length": Protocol(
        "precision, storage and multiplications of linear, bilinear and bank",
        functools.partial(_retrieval, name="code-length"),
        ("itq", "bpbc", "bpb", "joint"),
        (64, 32, 16, 8),
        5,
    ),
    "pair-error": Protocol(
        "pairwise error of the bits against that of one bit of all dimensions",
        _pair_error,
        ("bpb", "randst+bpb", "joint"),
        (64, 32, 16, 8, 4, 2),
        3,
    ),
    "soft": Protocol("soft against hard groups", _soft, ("bpb", "kbpb-rbf"), (64, 32, 16, 8, 4, 2, 1), 3),
    "pr-curves": Protocol("precision against recall", _curves, (*PAPER_METHODS, "joint"), (8,), 3),
    "sensitivity": Protocol("precision against n and lambda", _sensitivity, ("bpb", "kbpb-rbf"), (10,), 3),
    "diagnosis": Protocol(
        "why: balance of bits, group sizes, redundancy",
        _diagnosis,
        ("lsh", "cbe", "bpbc", "randst+bpb", "bpb", "kbpb-rbf", "joint"),
        (64, 16, 8),
    ),
    "examples": Protocol(
        "queries and what was found, as pictures",
        _examples,
        ("joint", "lsh"),
        (16,),
        suits=lambda files: files.pictures is not None,
    ),
}
"""What `projbank reproduce` knows; `retrieval` without methods means all of them."""


def plan(sets: Sequence[SetFiles], names: Sequence[str], out: Path, settings: Settings) -> list[Experiment]:
    """Experiments of all named protocols on all sets that suit them, set by set.

    Parameters
    ----------
    sets : data sets; the vectors of each must be there (`prepare`)
    names : names of `PROTOCOLS`
    out : folder of the results
    settings : what the user changes

    A set is passed over where it names other protocols only, or lacks what a protocol needs (pictures, folds).
    """
    opened = [(files, files.open()) for files in sets]  # a set that can't be read leaves no folder behind
    (out / "results").mkdir(parents=True, exist_ok=True)
    experiments = []
    for files, data in opened:
        main_results = ResultFile(out / "results" / f"{files.name}.json")
        for name in names:
            if not _is_wanted(name, files, names):
                continue
            protocol = PROTOCOLS[name]
            experiment = protocol.build(_settle(protocol, files, data, main_results, settings))
            if experiment.plan:
                experiments.append(experiment)
    for files, data in opened:
        note_set(out, files, data)  # only of what could be planned
    return experiments


def _is_wanted(name: str, files: SetFiles, names: Sequence[str]) -> bool:
    """Whether a protocol is to be run on a set; `action` can draw folds, but only does so where it is asked for."""
    if files.only and name not in files.only:
        return False
    return PROTOCOLS[name].suits(files) or (name == "action" and (list(names) == [name] or name in files.only))


def _settle(protocol: Protocol, files: SetFiles, data: DataSet, results: ResultFile, settings: Settings) -> Job:
    wanted = settings.methods or protocol.methods or tuple(METHODS)
    dimensions = data.vectors.shape[1]
    lengths = sorted({max(1, dimensions // ratio) for ratio in settings.ratios or protocol.ratios})
    bits = lengths[-settings.n_lengths :] if settings.n_lengths else lengths
    return Job(
        files=files,
        data=data,
        main_results=results,
        methods=tuple(name for name in wanted if name in METHODS),
        bits=tuple(bits),
        seeds=range(settings.seeds or protocol.seeds),
        params=settings.params,
        n_train=settings.train or files.train,
        n_jobs=settings.n_jobs,
    )


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
        extractor = build_extractor(
            "trajectories" if video else "dense-sift", files.kind or "fv", files.components or (200 if video else 250)
        )
        sample = files.sample or SAMPLE_IMAGES
        extract(source, extractor, outputs.vectors, sample_images=sample, n_jobs=n_jobs, verbose=verbose)
    lists = files.source / "ucfTrainTestlist"
    return replace(
        files,
        source=None,
        vectors=outputs.vectors,
        labels=None,
        files=None,
        pictures=files.pictures or files.source,
        folds=files.folds or (lists if lists.is_dir() else None),
    )
