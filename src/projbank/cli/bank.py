"""`projbank fit`: from a file of vectors to a bank."""

from __future__ import annotations

from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from projbank.cli import options
from projbank.cli.media import Components, Descriptor, Kind, Sample, described_sample, refuse_choices
from projbank.progress import console

Solver = StrEnum("Solver", ["mixed", "joint", "paper", "random"])
Preserve = StrEnum("Preserve", ["neighbourhoods", "distances"])
Kernel = StrEnum("Kernel", ["rbf", "poly", "linear"])


def fit(
    vectors: Annotated[
        Path,
        Argument(
            help="Training vectors, one per row: .npy, .npz, HDF5, .h5ad, zarr, parquet, Arrow, or a folder of such; "
            "or a folder or zip of pictures or videos."
        ),
    ],
    output: Annotated[Path, Option("--output", "-o", help="Model file to write (.safetensors).")],
    bits: Annotated[str, Option("--bits", "-b", help="Bits per code, or 'auto' for about D/16.")] = "auto",
    solver: Annotated[
        Solver | None,
        Option(
            help="mixed (default): a head on a bank's sums. joint: a plain bank, all weights together. paper: BPB, "
            "each bit for itself."
        ),
    ] = None,
    preserve: Annotated[
        Preserve | None,
        Option(help="neighbourhoods (default): find what belongs together. distances: find the vectors' own nearest."),
    ] = None,
    grouping: Annotated[
        str,
        Option(
            help="auto, learnt, kmeans, random, contiguous, soft, soft-learnt, soft-kmeans, soft-random, or a .npy "
            "file with the group (or r rows with the groups) of each dimension."
        ),
    ] = "auto",
    neighbors: Annotated[int | None, Option("--neighbors", "-k", help="Neighbours that count as similar.")] = None,
    pca: Annotated[
        int | None,
        Option(help="Look for neighbours among so many principal components, where numbers are noisy counts."),
    ] = None,
    kernel: Annotated[Kernel | None, Option(help="Learn a kernel bank (KBPB) with this kernel.")] = None,
    settings: Annotated[
        list[str] | None, Option("--set", help="Any other parameter of the bank, as NAME=VALUE; may be repeated.")
    ] = None,
    tune: Annotated[
        list[str] | None, Option(help="Values of a parameter to choose from: lam=0.1,1,10; may be repeated for a grid.")
    ] = None,
    labels: Annotated[
        Path | None,
        Option(help="Labels (.npy, -1 if unknown) to learn from; with --tune to judge by, else by the nearest floats."),
    ] = None,
    tune_k: Annotated[int, Option(help="--tune looks at the precision after so many results.")] = 50,
    descriptor: Descriptor = None,
    kind: Kind = None,
    components: Components = None,
    sample: Sample = 2000,
    on_error: options.Unreadable = options.OnError.fail,
    start: Annotated[
        Path | None, Option("--from", help="Learn on from this bank, in a fraction of the time; its parameters hold.")
    ] = None,
    keep_codes: Annotated[
        bool, Option("--keep-codes", help="With --from: change so little that its codes stay comparable.")
    ] = False,
    set_aside: Annotated[
        int, Option(help="Vectors not to learn from; what their codes are like is kept, to see drift later.")
    ] = 0,
    seed: Annotated[int, Option(help="Seed: same seed and data give the same bits.")] = 0,
    force: options.Force = False,
    dataset: options.Dataset = None,
    layer: options.Layer = None,
    from_obsm: options.FromObsm = None,
    normalize: options.Normalize = None,
    cluster: options.Cluster = None,
    jobs: options.Jobs = None,
    quiet: options.Quiet = False,
    verbose: options.Verbose = 0,
) -> None:
    """Learn a projection bank, or with --kernel a kernel bank, from a file of vectors.

    From a folder or zip of pictures or videos a codebook is learnt too, and the model file carries it: `projbank
    encode` then needs nothing else.

    With --tune every combination of the values is fitted to one part of the vectors and judged by retrieval on another
    part; the best is then fitted to all of them. docs/guide.md says more.
    """
    from projbank.features.coder import MediaCoder
    from projbank.features.listing import is_media
    from projbank.rows.files import open_array

    always = {
        "n_bits": _bits(bits),
        "grouping": _grouping(grouping),
        "random_state": seed,
        "n_jobs": jobs,
        "verbose": options.verbosity(quiet, verbose),
    }
    where_given = {
        "--solver": ("solver", solver and solver.value),
        "--preserve": ("preserve", preserve and preserve.value),
        "--neighbors": ("n_neighbors", neighbors),
        "--pca": ("n_components", pca),
    }
    if keep_codes and start is None:
        raise ValueError("--keep-codes is for learning on from a bank: give --from, too.")
    if start is not None and is_media(vectors):
        raise ValueError(f"--from is for vectors. Got {vectors}: describe it first, with the codebook of {start}.")
    old = None if start is None else options.load_bank(start)
    bank = _unfitted(old, kernel, always, where_given, options.read_settings(settings))
    grid = _grid(tune or [])
    if labels is not None and is_media(vectors):
        raise ValueError("--labels is for files of vectors.")
    learns_labels = kernel is None and solver in (None, Solver.mixed) and preserve != Preserve.distances
    if labels is not None and not grid and not learns_labels:
        raise ValueError("--labels is for neighbourhoods of the solver mixed, or for --tune.")
    reading = options.Reading(dataset, layer, from_obsm, normalize)
    choices = {"descriptor": descriptor, "kind": kind, "components": components}
    sources = (vectors, labels, grouping, start)
    with ExitStack() as stack:
        stack.enter_context(options.naming(vectors))
        temporary = stack.enter_context(options.output_file(output, "model", sources, force))  # refused before the work
        if is_media(vectors):
            describer, X = described_sample(vectors, choices, sample, on_error, seed, jobs, bank.verbose)
        else:
            refuse_choices(vectors, choices)
            describer, X = None, reading.open(vectors)
            reading.warn_of_counts(vectors, X)
        if start is not None:
            reading.check(vectors, X, start, old)
        if cluster is not None:
            if describer is not None or grid:
                raise ValueError("--cluster is for files of vectors, without --tune.")
            from projbank import cluster as dask

            X = reading.on_cluster(vectors, stack.enter_context(dask.cluster(cluster)))
        y = None if labels is None else open_array(labels)
        if grid:
            bank.set_params(**_tuned(bank, X, grid, y, tune_k, seed))
        bank.fit(X, None if grid else y, start=old, keep_codes=keep_codes, set_aside=set_aside)
        if describer is None:
            bank.trained_on_ = reading.made_by(vectors, X)
            bank.save(temporary)
        else:
            MediaCoder(describer, bank).save(temporary)
    sizes = bank.group_sizes_
    groups = f"{len(sizes)} groups of {sizes.min()} to {sizes.max()}"
    print(f"{output}: {bank.n_features_in_} dimensions to {bank.n_bits_} bits, {groups}")
    if old is not None:
        print(_told(bank.kept_, start))


def _bits(text: str) -> int | str:
    if text == "auto":
        return text
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"--bits must be an int or 'auto'. Got {text!r} instead.") from None


def _grouping(text: str) -> Any:
    from projbank.rows.files import open_array

    return open_array(text) if text.endswith(".npy") else text


def _unfitted(
    old: Any,
    kernel: Kernel | None,
    always: dict[str, Any],
    where_given: dict[str, tuple[str, Any]],
    settings: dict[str, Any],
) -> Any:
    """A bank with the parameters of an old one, or a new bank; an option that its kind does not have is refused."""
    from sklearn.base import clone

    from projbank.bank import ProjectionBank
    from projbank.kernel_bank import KernelProjectionBank

    if old is not None:
        again = {name: always[name] for name in ("n_bits", "random_state", "n_jobs", "verbose")}
        bank, kind = clone(old).set_params(**again), type(old).__name__
    elif kernel is None:
        bank, kind = ProjectionBank(**always), "linear bank; give --kernel"
    else:
        bank, kind = KernelProjectionBank(kernel=kernel.value, **always), "kernel bank"
    given = {option: pair for option, pair in where_given.items() if pair[1] is not None}
    for option, (name, _) in given.items():
        if name not in bank.get_params():
            raise ValueError(f"{option} is not for a {kind}.")
    taken = {*always, "kernel", *(name for name, _ in where_given.values())}
    for name in settings:
        if name not in bank.get_params():
            raise ValueError(f"--set names no parameter of {type(bank).__name__}. Got {name!r} instead.")
        if name in taken:
            raise ValueError(f"--set is for parameters without an option of their own. Got {name!r} instead.")
    return bank.set_params(**dict(given.values()), **settings)


def _told(kept: Any, start: Path | None) -> str:
    """What a renewal means for codes that exist."""
    if kept is None:
        return f"codes of {start} are not comparable with its codes: code anew with projbank recode"
    return (
        f"codes of {start} stay comparable: {kept.flipped:.1%} of the bits differ; recall@10 of the floats "
        f"{kept.recall['old']:.3f} with old codes, {kept.recall['across']:.3f} with old and new, "
        f"{kept.recall['new']:.3f} with new ones"
    )


def _grid(words: list[str]) -> dict[str, list[Any]]:
    """Values to try from ``parameter=value,value``; values are JSON where they can be read as such."""
    found: dict[str, list[Any]] = {}
    for word in words:
        name, equals, values = word.partition("=")
        if not equals or not name or not all(values.split(",")):
            raise ValueError(f"--tune must be PARAMETER=VALUE,VALUE... Got {word!r} instead.")
        if name in found:
            raise ValueError(f"--tune names {name!r} twice; give all its values at once.")
        found[name] = [options.read_value(text) for text in values.split(",")]
    return found


def _tuned(bank: Any, X: Any, grid: dict[str, list[Any]], y: Any, k: int, seed: int) -> dict[str, Any]:
    """Best parameters of a grid; what was tried is printed."""
    from rich.table import Table

    from projbank.evaluate.tuning import best_trial, retrieval_scorer, tune

    trials = tune(bank, X, grid, y=y, scorer=retrieval_scorer(k), seed=seed, verbose=bank.verbose)
    best = best_trial(trials)
    relevant = "same label" if y is not None else f"among the {k} nearest floats"
    table = Table(title=f"precision@{k} of held-out vectors ({relevant})", title_justify="left")
    for name in (*grid, "precision", "seconds", ""):
        table.add_column(name, justify="right")
    for trial in trials:
        values = [str(trial.params[name]) for name in grid]
        table.add_row(*values, f"{trial.score:.4f}", f"{trial.seconds:.1f}", "best" if trial is best else "")
    console().print(table)
    return best.params
