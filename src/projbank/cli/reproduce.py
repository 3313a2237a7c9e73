"""`projbank reproduce` and `projbank report`: the paper's tables and figures on a user's data, and one page of them."""

from __future__ import annotations

import shlex
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from projbank.cli.bank import Jobs, Quiet, Verbose, verbosity
from projbank.cli.evaluate import exit_if_all_failed, numbers, settings_of

if TYPE_CHECKING:
    from projbank.paper.sets import SetFiles

QUICK_LENGTHS = 2
QUICK_ITER = 20
"""Iterations of the banks' learning, which else would take most of the time."""
ALL = "all"


def reproduce(
    names: Annotated[
        list[str],
        typer.Argument(
            help="retrieval, cost, action, code-length, pair-error, soft, pr-curves, sensitivity, diagnosis, examples; "
            "or all."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of results and report; an unfinished run goes on.")],
    data: Annotated[
        list[Path] | None,
        typer.Option(
            help="Vectors (.npy, labels beside), a zip or folder of pictures or videos, or a .toml file that names "
            "several sets; may be repeated."
        ),
    ] = None,
    only: Annotated[
        str | None, typer.Option("--sets", help="Only these sets of a .toml file, with commas between.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small settings on scikit-learn's digits.")] = False,
    methods: Annotated[
        str | None, typer.Option(help="Names with commas between; the protocol's own if not given.")
    ] = None,
    ratios: Annotated[
        str | None, typer.Option(help="Lengths as D / bits with commas between, e.g. 64,16,8; else the protocol's own.")
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="Random splits; the protocol's own number if not given.")] = None,
    train: Annotated[int | None, typer.Option(help="Training vectors; two thirds of the gallery if not given.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Parameter of a method: itq.max_iter=10; may be repeated.")
    ] = None,
    slow: Annotated[float, typer.Option(help="A method slower than so many seconds runs for one seed only.")] = 600.0,
    retry: Annotated[bool, typer.Option("--retry", help="Measure again what failed in an earlier run.")] = False,
    since: Annotated[
        datetime | None, typer.Option(help="Measure again what is older than this time (UTC), as 2026-11-16T08:00:00.")
    ] = None,
    jobs: Jobs = None,
    quiet: Quiet = False,
    verbose: Verbose = 0,
) -> None:
    """Run the paper's experiments on your data and draw a report.

    Results are kept after every cell: after Ctrl-C the same command goes on. A method that fails does not stop the
    others; its row says why. The exit code is 1 where no cell has a result.
    """
    from projbank.evaluate.runner import Rules, run
    from projbank.methods import METHODS
    from projbank.paper.digits import digit_set
    from projbank.paper.notes import note_command
    from projbank.paper.reproduce import PROTOCOLS, Settings, plan, prepare
    from projbank.paper.sets import read_sets

    chosen = _choose(names, list(PROTOCOLS))
    if quick == bool(data):
        raise ValueError("give either --data or --quick.")
    if seeds is not None and seeds < 1:
        raise ValueError(f"--seeds must be at least 1. Got {seeds} instead.")
    wanted = None if methods is None else tuple(word.strip() for word in methods.split(","))
    for word in wanted or ():
        if word not in METHODS:
            raise ValueError(f"--methods must be names out of {', '.join(METHODS)}. Got {word!r}.")
    lengths = tuple(numbers("--ratios", ratios)) if ratios else None
    if any(ratio < 1 for ratio in lengths or ()):
        raise ValueError(f"--ratios must be at least 1. Got {ratios!r} instead.")
    change = Settings(
        ratios=lengths,
        n_lengths=QUICK_LENGTHS if quick else None,
        methods=wanted,
        seeds=seeds or (1 if quick else None),
        train=train,
        params=(_quick_params() if quick else {}) | settings_of(settings or []),
        n_jobs=jobs,
    )
    rules = Rules(slow, retry, None if since is None else since.replace(tzinfo=UTC).isoformat(timespec="seconds"))
    show = verbosity(quiet, verbose)
    sets = [] if quick else _pick(read_sets(data or []), only)
    if quick:
        sets = [digit_set(out / "data")]
    try:
        ready = [prepare(one, out / "features", jobs, show) for one in sets]
        experiments = plan(ready, chosen, out, change)
        note_command(out, shlex.join(["projbank", *sys.argv[1:]]))  # only of what could begin
        failed = run(experiments, rules, show)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"interrupted; what was measured is in {out}, the same command goes on") from None
    records = [record for experiment in experiments for record in experiment.records()]
    note = f", {failed} of this run failed and say why" if failed else ""
    print(f"{out / 'results'}: {len(records)} cells{note}")
    _draw(out)
    exit_if_all_failed(records)


def report(
    folder: Annotated[Path, typer.Argument(help="Folder that `projbank reproduce` filled.")],
    docs: Annotated[
        Path | None, typer.Option(help="Also write tables as Markdown and small pictures to this folder.")
    ] = None,
    take: Annotated[
        list[Path] | None,
        typer.Option(
            help="First add the cells of this file of `projbank evaluate`, where new or newer; may be repeated."
        ),
    ] = None,
) -> None:
    """Draw tables, plots and the report again from the results of a folder; nothing is measured."""
    if take:
        from projbank.paper.notes import take_results

        for path in take:
            print(f"{path}: {take_results(folder, path)} cells taken")
    _draw(folder, docs)


def _draw(folder: Path, docs: Path | None = None) -> None:
    from projbank.paper.report import write_documents, write_report

    print(f"{write_report(folder)}: the report")
    if docs is not None:
        print(f"{write_documents(folder, docs)}: tables and pictures")


def _pick(sets: list[SetFiles], names: str | None) -> list[SetFiles]:
    """Sets of the given names, in their own order."""
    known = {one.name: one for one in sets}
    wanted = list(known) if names is None else [word.strip() for word in names.split(",")]
    for name in wanted:
        if name not in known:
            raise ValueError(f"--sets must be names out of {', '.join(known)}. Got {name!r}.")
    return [one for one in sets if one.name in wanted]


def _quick_params() -> dict[str, dict[str, int]]:
    from projbank.methods import METHODS
    from projbank.paper.reproduce import BANKS

    banks = (*BANKS, "randst+bpb")
    return {name: {"max_iter": QUICK_ITER} for name in banks if name in METHODS}


def _choose(names: list[str], known: list[str]) -> list[str]:
    for name in names:
        if name not in (*known, ALL):
            raise ValueError(f"NAME must be one of {', '.join(known)}, {ALL}. Got {name!r}.")
    return known if ALL in names else list(dict.fromkeys(names))
