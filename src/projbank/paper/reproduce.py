"""The paper's tables and figures by name: which methods, lengths and seeds, and the whole plan over several sets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from projbank.evaluate.data import MAX_TRAINING, DataSet, split_sizes
from projbank.evaluate.results import ResultFile
from projbank.evaluate.retrieval import ORIGINAL, Cell, Retrieval, list_cells
from projbank.evaluate.runner import Experiment
from projbank.features.extract import Outputs
from projbank.methods import METHODS
from projbank.paper import causes
from projbank.paper.action import Action
from projbank.paper.protocols import Cost, PairError, PrecisionRecallCurves
from projbank.paper.sets import SetFiles, note_set
from projbank.paper.tuned import GRIDS, LAMBDAS, Tuned

KS = (10, 50, 100)
BASIS_SIZES = (100, 250, 500, 1000, 1500)

PAPER_METHODS = (
    *("pca", "pq", "pka", "rr+pq", "sign", "alpha0", "lsh", "sph", "bpbc", "cbe"),
    *("kmeans+itq", "randst+bpb", "bpb", "bpb-equal", "kbpb-poly", "kbpb-rbf", "kbpb-rbf-equal"),
)
"""Rows of the paper's tables, in its order."""
BANKS = ("randst+bpb", "bpb", "bpb-equal", "kbpb-poly", "kbpb-rbf", "kbpb-rbf-equal", "joint")


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


class Job(NamedTuple):
    """What the cells of a protocol follow from: methods, lengths, their parameters, and the number to learn from."""

    methods: Sequence[str]
    bits: Sequence[int]
    params: Mapping[str, Mapping[str, Any]]
    n_train: int


def _with_floats(job: Job) -> list[Cell]:
    return list_cells([ORIGINAL, *job.methods], job.bits, job.params)


def _codes_only(job: Job) -> list[Cell]:
    return list_cells(job.methods, job.bits, job.params)


def _soft(job: Job) -> list[Cell]:
    """Hard groups beside soft ones: k-means for the paper's banks, learnt ones for the joint bank."""
    cells: list[Cell] = []
    for name in [name for name in job.methods if "grouping" in METHODS[name]().get_params()]:
        given = job.params.get(name, {})
        hard = {**given, "grouping": "learnt"} if name == "joint" else given  # its own choice may be soft
        cells += [(name, n, params) for n in job.bits for params in (hard, {**given, "grouping": "soft"})]
    return cells


def _sensitivity(job: Job) -> list[Cell]:
    """Values of lambda, and for kernel banks numbers of basis samples, up to all training vectors."""
    cells: list[Cell] = []
    sizes = sorted({min(size, job.n_train) for size in BASIS_SIZES})
    for name in job.methods:
        given, known = job.params.get(name, {}), METHODS[name]().get_params()
        for word, values in (("lam", LAMBDAS), ("n_basis", sizes)):
            if word in known:
                cells += [(name, n, {**given, word: value}) for n in job.bits for value in values]
    return cells


def _causes(job: Job) -> list[Cell]:
    return causes.cells(job.bits, job.n_train, job.params.get("bpb", {}))


class Protocol(NamedTuple):
    """A table or figure: experiment, methods (none: all), lengths as D / bits, number of seeds, and the cells.

    `params`: of methods, where the paper has others for this protocol.
    """

    kind: Callable[..., Experiment]
    methods: tuple[str, ...]
    ratios: tuple[int, ...]
    seeds: int
    cells: Callable[[Job], list[Cell]] = _with_floats
    params: Mapping[str, Mapping[str, Any]] = MappingProxyType({})


_COST = ("rr", "rr+pq", "lsh", "bpbc", "cbe", "bpb", "kbpb-rbf", "joint")
_ACTION_PARAMS = {name: {"lam": 8.0} | ({"n_basis": 500} if name.startswith("k") else {}) for name in GRIDS}
_ACTION = (*(name for name in PAPER_METHODS if name not in ("kmeans+itq", "randst+bpb")), "joint")
PROTOCOLS = {
    "retrieval": Protocol(Retrieval, (), (64, 32, 16, 10, 8), 5),
    "tuned": Protocol(Tuned, tuple(GRIDS), (64, 32, 16, 10, 8), 5),
    "cost": Protocol(Cost, _COST, (20, 16, 10, 8), 1, _codes_only),
    "action": Protocol(Action, _ACTION, (20, 16, 15, 10, 8), 3, params=_ACTION_PARAMS),
    "code-length": Protocol(Retrieval, ("itq", "bpbc", "bpb", "joint"), (64, 32, 16, 8), 5),
    "pair-error": Protocol(PairError, ("bpb", "randst+bpb", "joint"), (64, 32, 16, 8, 4, 2), 3),
    "soft": Protocol(Retrieval, ("bpb", "kbpb-rbf"), (64, 32, 16, 8, 4, 2, 1), 3, _soft),
    "pr-curves": Protocol(PrecisionRecallCurves, (*PAPER_METHODS, "joint"), (8,), 3),
    "sensitivity": Protocol(Retrieval, ("bpb", "kbpb-rbf"), (10,), 3, _sensitivity),
    "causes": Protocol(causes.Causes, ("bpb",), (8,), 3, _causes),
}
"""What `projbank reproduce` knows."""
IN_MAIN_FILE = ("retrieval", "code-length")


def plan(sets: Sequence[SetFiles], names: Sequence[str], out: Path, settings: Settings) -> list[Experiment]:
    """Experiments of all named `PROTOCOLS` on all sets that suit them, set by set; results go to folder `out`.

    The vectors of each set must be there (`prepare`). A set is passed over where it names other protocols only.
    `action` can draw folds, but for sets that have none it does so only where it is asked for by name.
    """
    opened = [(files, files.open()) for files in sets]  # a set that can't be read leaves no folder behind
    (out / "results").mkdir(parents=True, exist_ok=True)
    experiments = []
    for files, data in opened:
        main = ResultFile(out / "results" / f"{files.name}.json")
        has_folds = files.split is not None or files.folds is not None
        for name in files.only or names:
            if name in names and (name != "action" or has_folds or files.only or list(names) == [name]):
                own = None if name in IN_MAIN_FILE else out / "results" / f"{files.name}.{name}.json"
                results = main if own is None else ResultFile(own, borrow=[main])
                experiments.append(_experiment(name, files, data, results, settings))
    for files, data in opened:
        note_set(out, files, data)  # only of what could be planned
    return [experiment for experiment in experiments if experiment.plan]


def _experiment(name: str, files: SetFiles, data: DataSet, results: ResultFile, settings: Settings) -> Experiment:
    protocol, (n_rows, dimensions) = PROTOCOLS[name], data.vectors.shape
    lengths = sorted({max(1, dimensions // ratio) for ratio in settings.ratios or protocol.ratios})
    bits = lengths[-settings.n_lengths :] if settings.n_lengths else lengths
    methods = settings.methods or protocol.methods or tuple(METHODS)
    n_queries, n_train = files.n_queries(n_rows), settings.train or files.train
    given = {name: {**protocol.params.get(name, {}), **settings.params.get(name, {})} for name in METHODS}
    most = getattr(protocol.kind, "max_training", MAX_TRAINING)
    cells = protocol.cells(Job(methods, bits, given, split_sizes(n_rows, n_queries, n_train, most)[1]))
    more: dict[str, Any] = {"n_queries": n_queries, "n_train": n_train}
    if protocol.kind is Action:
        more = {"folds": files.fold_rows(n_rows)}
    elif protocol.kind in (Retrieval, Tuned):
        more |= {"ks": [k for k in KS if k <= n_rows - n_queries], "asymmetric": True, "whole": True}
        more |= {"name": name} if protocol.kind is Retrieval else {}
    seeds = range(settings.seeds or files.seeds or protocol.seeds)
    return protocol.kind(data, cells, results, seeds=seeds, n_jobs=settings.n_jobs, **more)


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
        power: dict[str, Any] = {} if files.alpha is None else {"alpha": files.alpha}
        names = files.descriptor or descriptors, files.kind or "fv"
        extractor = build_extractor(*names, files.components or components, **power)
        sample = files.sample or SAMPLE_IMAGES
        extract(source, extractor, outputs.vectors, sample_images=sample, n_jobs=n_jobs, verbose=verbose)
    lists = files.source / "ucfTrainTestlist"
    folds = files.folds or (lists if lists.is_dir() else None)
    return replace(files, source=None, vectors=outputs.vectors, labels=None, files=None, folds=folds)
