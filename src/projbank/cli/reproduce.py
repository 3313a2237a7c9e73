"""`projbank reproduce` and `projbank report`: the paper's tables and figures on a user's data, and one page of them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from projbank.cli.evaluate import Retry, Set, Slow, Train, exit_if_all_failed, numbers, settings_of
from projbank.cli.options import Jobs, Quiet, Verbose, verbosity

if TYPE_CHECKING:
    from projbank.paper.sets import SetFiles

QUICK_LENGTHS = 2
QUICK_ITER = 20
"""Iterations of the banks' learning, which else would take most of the time."""
EVERYTHING = ("paper", "all")
"""Names that stand for every protocol."""


def reproduce(
    names: Annotated[
        list[str],
        Argument(help="Names of docs/reproduce.md, such as retrieval, tuned, cost, action, causes; or paper: all."),
    ],
    out: Annotated[Path, Option("--out", "-o", help="Folder of results and report; an unfinished run goes on.")],
    data: Annotated[
        list[Path] | None,
        Option(
            help="Vectors (.npy, labels beside), a zip or folder of pictures or videos, or a .toml file that names "
            "several sets; may be repeated."
        ),
    ] = None,
    only: Annotated[str | None, Option("--sets", help="Only these sets of a .toml file, with commas between.")] = None,
    quick: Annotated[bool, Option("--quick", help="Small settings on scikit-learn's digits.")] = False,
    methods: Annotated[str | None, Option(help="Names with commas between; the protocol's own if not given.")] = None,
    ratios: Annotated[
        str | None, Option(help="Lengths as D / bits with commas between, e.g. 64,16,8; else the protocol's own.")
    ] = None,
    seeds: Annotated[int | None, Option(help="Random splits; the protocol's own number if not given.")] = None,
    train: Train = None,
    settings: Set = None,
    slow: Slow = 600.0,
    retry: Retry = False,
    since: Annotated[
        datetime | None, Option(help="Measure again what is older than this time (UTC), as 2026-11-16T08:00:00.")
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
    from projbank.paper.report import write_report
    from projbank.paper.reproduce import BANKS, PROTOCOLS, Settings, plan, prepare
    from projbank.paper.sets import read_sets

    for name in names:
        if name not in (*PROTOCOLS, *EVERYTHING):
            raise ValueError(f"NAME must be one of {', '.join([*PROTOCOLS, *EVERYTHING])}. Got {name!r}.")
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
    sets = [digit_set(out / "data")] if quick else _pick(read_sets(data or []), only)
    params = {name: {"max_iter": QUICK_ITER} for name in BANKS} if quick else {}
    for method, given in settings_of(settings).items():
        params[method] = params.get(method, {}) | given
    n_lengths, n_seeds = (QUICK_LENGTHS, seeds or 1) if quick else (None, seeds)
    change = Settings(lengths, n_lengths, wanted, n_seeds, train, params, jobs)
    rules = Rules(slow, retry, None if since is None else since.replace(tzinfo=UTC).isoformat(timespec="seconds"))
    show = verbosity(quiet, verbose)
    try:
        ready = [prepare(one, out / "features", jobs, show) for one in sets]
        wanted_names = PROTOCOLS if set(names) & set(EVERYTHING) else dict.fromkeys(names)
        experiments = plan(ready, list(wanted_names), out, change)
        failed = run(experiments, rules, show)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"interrupted; what was measured is in {out}, the same command goes on") from None
    records = [record for experiment in experiments for record in experiment.records()]
    note = f", {failed} of this run failed and say why" if failed else ""
    print(f"{out / 'results'}: {len(records)} cells{note}")
    print(f"{write_report(out)}: the report")
    exit_if_all_failed(records)


def report(folder: Annotated[Path, Argument(help="Folder that `projbank reproduce` filled.")]) -> None:
    """Draw tables, plots and the report again from the results of a folder; nothing is measured."""
    from projbank.paper.report import write_report

    print(f"{write_report(folder)}: the report")


def _pick(sets: list[SetFiles], names: str | None) -> list[SetFiles]:
    """Sets of the given names, in their own order."""
    known = [one.name for one in sets]
    wanted = known if names is None else [word.strip() for word in names.split(",")]
    for name in wanted:
        if name not in known:
            raise ValueError(f"--sets must be names out of {', '.join(known)}. Got {name!r}.")
    return [one for one in sets if one.name in wanted]
