"""What `projbank fit` and `projbank encode` do with a folder or zip of pictures or videos."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from projbank.cli.options import OnError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from projbank.features.coder import MediaCoder


Descriptors = StrEnum(
    "Descriptors", {"dense_sift": "dense-sift", "sift": "sift", "trajectories": "trajectories", "net": "net"}
)
Kinds = StrEnum("Kinds", ["fv", "vlad"])
Descriptor = Annotated[
    Descriptors | None,
    Option(help="What describes pictures (default dense-sift; net needs the extra photos) or videos (trajectories)."),
]
Kind = Annotated[Kinds | None, Option(help="How local descriptors become one vector: fv (default) or vlad.")]
Components = Annotated[int | None, Option(help="Gaussians or centres of the codebook; 128 by default.")]
Sample = Annotated[int, Option(help="Pictures or videos that codebook and bank are learnt from.")]


def described_sample(
    data: Path, choices: dict[str, Any], sample: int, on_error: OnError, seed: int, jobs: int | None, verbose: int
) -> tuple[Any, NDArray[np.float32]]:
    """Describer learnt from a sample of the files of a folder or zip, and the vectors of the sample."""
    from projbank.features.extractor import photo_extractor
    from projbank.features.listing import open_listing
    from projbank.features.straight import learn_describer, vectors_of
    from projbank.params import check_int

    check_int("projbank fit", "sample", sample, 2)
    listing = open_listing(data)
    video = listing.media == "video"
    given = {name: value.value if isinstance(value, StrEnum) else value for name, value in choices.items() if value}
    name = given.setdefault("descriptor", "trajectories" if video else "dense-sift")
    if (name == "trajectories") != video:
        raise ValueError(f"{data} holds {listing.media}s, which --descriptor {name} does not describe.")
    if name == "net":
        from projbank.features.net import ConvMaps

        refuse_choices(data, {word: value for word, value in choices.items() if word != "descriptor"})
        describer: Any = ConvMaps()
        describer.check()
    else:
        describer = photo_extractor(random_state=seed, **given)
    drawn = listing.draw(sample, seed)
    options: dict[str, Any] = {"on_error": on_error.value, "n_jobs": jobs, "verbose": verbose}
    describer = learn_describer(listing, describer, drawn, **options)
    return describer, vectors_of(listing, describer, drawn, **options)


def refuse_choices(data: Path, choices: dict[str, Any]) -> None:
    """Refuse options that have no effect on what is given."""
    for name, value in choices.items():
        if value is not None:
            raise ValueError(f"--{name} is for local descriptors of pictures or videos, which {data} is not coded by.")


def code_media(
    coder: MediaCoder,
    bank: Path,
    data: Path,
    output: Path,
    on_error: OnError,
    force: bool,
    jobs: int | None,
    verbose: int,
) -> None:
    """Code every picture or video of a folder or zip, and say what was done."""
    from projbank.features.listing import open_listing
    from projbank.features.straight import code_files
    from projbank.files import check_output

    names = output.with_suffix(".files.txt")
    check_output(output, kind="codes", inputs=(bank, data), force=force)
    check_output(names, kind="text", inputs=(bank, data), force=force)
    listing = open_listing(data, coder.media)
    try:
        done = code_files(listing, coder, output, on_error=on_error.value, n_jobs=jobs, verbose=verbose)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("interrupted; the same command goes on from here") from None
    print(f"{output}: {done.n_codes} codes of {coder.media}s, {(coder.n_bits_ + 7) // 8} bytes each")
    print(f"{names}: their names")
    if done.skipped or done.empty:
        print(f"{done.skipped} files skipped, {done.empty} without descriptors")
