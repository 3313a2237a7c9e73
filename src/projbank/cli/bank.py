"""`projbank fit` and `projbank encode`: from a file of vectors to a bank, and from both to codes."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

Jobs = Annotated[int | None, typer.Option("--jobs", "-j", help="Threads; all cores if not given.")]
Dataset = Annotated[str | None, typer.Option(help="Name of the array inside an .npz or HDF5 file.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bars.")]
Verbose = Annotated[int, typer.Option("--verbose", "-v", count=True, help="Print the course of the work.")]


class Solver(StrEnum):
    """Names of the solvers."""

    joint = "joint"
    paper = "paper"


class Init(StrEnum):
    """Names of the paper solver's starts."""

    leading = "leading"
    equal = "equal"
    random = "random"


def verbosity(quiet: bool, verbose: int) -> int:
    """Progress bars on a terminal, nothing in a pipe, unless the user says otherwise."""
    return 0 if quiet else verbose or int(sys.stderr.isatty())


def fit(
    vectors: Annotated[Path, typer.Argument(help="Training vectors: .npy, .npz or HDF5, one vector per row.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Model file to write (.safetensors).")],
    bits: Annotated[str, typer.Option("--bits", "-b", help="Bits per code, or 'auto' for about D/16.")] = "auto",
    solver: Annotated[
        Solver, typer.Option(help="joint: all weights together. paper: BPB, each bit for itself.")
    ] = Solver.joint,
    grouping: Annotated[
        str, typer.Option(help="auto, kmeans, random, contiguous, or a .npy file with a group per dimension.")
    ] = "auto",
    neighbors: Annotated[int, typer.Option("--neighbors", "-k", help="Neighbours that count as similar.")] = 100,
    lam: Annotated[float, typer.Option(help="Weight of the pair loss (paper's solver).")] = 1.0,
    max_iter: Annotated[int, typer.Option(help="Iterations of learning.")] = 70,
    init: Annotated[Init, typer.Option(help="Start of a group's weights (paper's solver).")] = Init.leading,
    standardize: Annotated[
        bool, typer.Option("--standardize", help="Divide each dimension by its deviation first.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed: same seed and data give the same bits.")] = 0,
    dataset: Dataset = None,
    jobs: Jobs = None,
    quiet: Quiet = False,
    verbose: Verbose = 0,
) -> None:
    """Learn a projection bank from a file of vectors."""
    from projbank.bank import ProjectionBank
    from projbank.files import atomic_path
    from projbank.vectors import open_vectors

    bank = ProjectionBank(
        n_bits=_bits(bits),
        solver=solver.value,
        grouping=_grouping(grouping),
        n_neighbors=neighbors,
        lam=lam,
        max_iter=max_iter,
        init=init.value,
        standardize=standardize,
        random_state=seed,
        n_jobs=jobs,
        verbose=verbosity(quiet, verbose),
    )
    X = open_vectors(vectors, dataset)
    with atomic_path(output) as temporary:  # an output that can't be written is told before the work, not after it
        bank.fit(X)
        bank.save(temporary)
    sizes = bank.group_sizes_
    print(
        f"{output}: {bank.n_features_in_} dimensions to {bank.n_bits_} bits, groups of {sizes.min()} to {sizes.max()}"
    )


def encode(
    bank: Annotated[Path, typer.Argument(help="Model file of a bank, or of any method of projbank.methods.")],
    vectors: Annotated[Path, typer.Argument(help="Vectors: .npy, .npz or HDF5, one vector per row.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write (.npy).")],
    margins: Annotated[bool, typer.Option("--margins", help="Write float32 margins instead of packed bits.")] = False,
    dataset: Dataset = None,
    jobs: Jobs = None,
    quiet: Quiet = False,
    verbose: Verbose = 0,
) -> None:
    """Code a file of vectors; the file is read in blocks, so it may be larger than memory."""
    import numpy as np

    from projbank.estimator import RowCoder
    from projbank.files import atomic_path
    from projbank.modelfile import load
    from projbank.vectors import open_vectors

    model = load(bank)
    if not isinstance(model, RowCoder):
        raise ValueError(f"{bank}: holds a {type(model).__name__}, which does not code vectors.")
    if margins and not hasattr(model, "decision_function"):
        raise ValueError(f"{bank}: holds a {type(model).__name__}, which has no margins.")
    X = open_vectors(vectors, dataset)
    if X.shape[1] != model.n_features_in_:
        raise ValueError(f"{vectors}: vectors have {X.shape[1]} dimensions, but {bank} expects {model.n_features_in_}.")
    model.set_params(n_jobs=jobs, verbose=verbosity(quiet, verbose))
    real = margins or getattr(model, "distance", "hamming") == "l2"
    width, dtype = (model.n_bits_ if margins else model._n_features_out), (np.float32 if real else np.uint8)
    with atomic_path(output) as temporary:
        out = np.lib.format.open_memmap(temporary, mode="w+", dtype=dtype, shape=(X.shape[0], width))
        model.write(X, out)
        out.flush()
        del out
    what = f"margins of {model.n_bits_} bits" if margins else "codes"
    print(f"{output}: {X.shape[0]} {what}, {width * dtype().itemsize} bytes each")


def _bits(text: str) -> int | str:
    if text == "auto":
        return text
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"--bits must be an int or 'auto'. Got {text!r} instead.") from None


def _grouping(text: str) -> Any:
    from projbank.vectors import open_array

    return open_array(text) if text.endswith(".npy") else text
