"""`projbank features`: from a folder or zip of pictures or videos to a file of long vectors."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from projbank.cli.options import Force, OnError, Quiet, Unreadable, Verbose, read_settings, read_value, verbosity

if TYPE_CHECKING:
    from projbank.features.extractor import FeatureExtractor


Kind = StrEnum("Kind", ["fv", "vlad"])
Descriptor = StrEnum("Descriptor", {"dense_sift": "dense-sift", "sift": "sift", "trajectories": "trajectories"})
Layout = StrEnum("Layout", ["auto", "images", "videos", "zip", "ucf101", "ilsvrc2010", "flickr"])


def features(
    data: Annotated[Path, Argument(help="Folder or zip of pictures or videos.")],
    output: Annotated[Path, Option("--output", "-o", help="Vectors to write (.npy); the rest stands beside.")],
    kind: Annotated[
        Kind | None, Option(help="fv: Fisher vector, 2 K k dimensions (default). vlad: K k dimensions.")
    ] = None,
    components: Annotated[
        int | None, Option("--components", "-k", help="Gaussians or centres, K; 250 by default.")
    ] = None,
    descriptor: Annotated[
        Descriptor | None, Option(help="By default dense-sift for pictures, trajectories for videos.")
    ] = None,
    codebook: Annotated[
        Path | None, Option(help="Encode with this codebook of an earlier run instead of learning one.")
    ] = None,
    layout: Annotated[Layout, Option(help="How the data set is laid out.")] = Layout.auto,
    split: Annotated[str | None, Option(help="Only this split: train, test, val.")] = None,
    fold: Annotated[int | None, Option(help="Fold of UCF101's official splits: 1, 2 or 3.")] = None,
    exclude: Annotated[list[str] | None, Option(help="Leave out this class; may be repeated.")] = None,
    on_error: Unreadable = OnError.fail,
    settings: Annotated[
        list[str] | None,
        Option("--set", help="Parameter of descriptor or encoder: step=8, bin_sizes=3,4, n_pca=64; repeatable."),
    ] = None,
    max_side: Annotated[int | None, Option(help="Make larger pictures and frames smaller than this.")] = None,
    max_pixels: Annotated[int, Option(help="A larger picture counts as one that can't be decoded.")] = 100_000_000,
    sample: Annotated[int, Option(help="Files that the codebook is learnt from.")] = 2000,
    seed: Annotated[int | None, Option(help="Seed (0): same seed and data give the same vectors.")] = None,
    restart: Annotated[bool, Option("--restart", help="Discard what another unfinished run left.")] = False,
    relearn: Annotated[
        bool, Option("--relearn", help="Start over: replace vectors and codebook that are there.")
    ] = False,
    force: Force = False,
    jobs: Annotated[int | None, Option("--jobs", "-j", help="Worker processes; all cores if not given.")] = None,
    quiet: Quiet = False,
    verbose: Verbose = 0,
) -> None:
    """Describe and encode every picture or video of DATA into one .npy file.

    Beside it stand labels.npy, files.txt and classes.txt (with the output's name in front unless that is vectors.npy)
    and the codebook, which --codebook takes to encode queries the same way. A run that was cut off goes on when the
    same command is given again; where vectors are there already, only new and changed files are described.
    """
    from projbank.features.extract import Outputs, extract
    from projbank.features.extractor import build_extractor
    from projbank.features.readers import open_source

    source = open_source(data, layout.value, fold).select(split, exclude or ())
    choices = {
        "descriptor": descriptor and descriptor.value,
        "kind": kind and kind.value,
        "components": components,
        "max_side": max_side,
        "random_state": seed,
    }
    given = {name: value for name, value in choices.items() if value is not None} | {
        name: read_list(value) for name, value in read_settings(settings).items()
    }
    if codebook is None and not relearn and (own := Outputs(output).codebook).exists():
        codebook = own
    if codebook is not None:
        extractor = _read_codebook(codebook, given)
    else:
        if source.media == "video":
            given.setdefault("descriptor", Descriptor.trajectories.value)
        extractor = build_extractor(**given)
    show = verbosity(quiet, verbose)
    try:
        done = extract(
            source,
            extractor,
            output,
            on_error=on_error.value,
            sample_images=sample,
            restart=restart,
            relearn=relearn,
            force=force,
            max_pixels=max_pixels,
            n_jobs=jobs,
            verbose=show,
        )
    except KeyboardInterrupt:
        raise KeyboardInterrupt("interrupted; the same command goes on from here") from None
    if done.changes:
        print(done.changes)
    per_thousand = 1000 * done.seconds_encoding / max(1, done.n_encoded)
    print(
        f"{output}: {done.n_rows} vectors of {done.n_dims} dimensions; codebook {done.seconds_codebook:.1f} s, "
        f"encoding {done.seconds_encoding:.1f} s ({per_thousand:.1f} s per thousand), peak memory {_peak_memory()}"
    )
    if not done.n_classes:
        print("no labels: the files lie flat, without a folder per class; all labels are -1")
    if done.skipped or done.empty:
        print(f"{len(done.skipped)} files skipped, {len(done.empty)} without descriptors (zero vectors)")


def _read_codebook(path: Path, given: dict[str, Any]) -> FeatureExtractor:
    """Read the extractor of an earlier run; settings that the user gives as well must be its own."""
    from projbank.features.extractor import FeatureExtractor
    from projbank.models.file import load

    if path.exists() and not path.is_file():
        raise ValueError(f"{path}: not a file.")
    extractor = load(path)
    if not isinstance(extractor, FeatureExtractor):
        raise ValueError(f"{path}: holds a {type(extractor).__name__}, not a codebook of `projbank features`.")
    own = extractor.settings()
    for name, value in given.items():
        if own.get(name) != value:
            raise ValueError(
                f"{path}: was made with {name}={own.get(name)}. Got {name}={value}; leave it out, or --relearn."
            )
    return extractor


def read_list(value: Any) -> Any:
    """A list, where a text has commas between its values."""
    return [read_value(word) for word in value.split(",")] if isinstance(value, str) and "," in value else value


def _peak_memory() -> str:
    """Largest memory that this process had, without its workers."""
    try:
        import resource
    except ImportError:  # not on Windows
        return "unknown"
    unit = 1024 if sys.platform != "darwin" else 1  # kilobytes, but bytes on macOS
    return f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20:.0f} MB"
