"""`projbank demo`: image search on pictures that come with scikit-learn, from pixels to codes, and what coding lost."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from projbank.cli.options import Jobs, verbosity
from projbank.progress import console

N_QUERIES, N_RESULTS = 300, 50
SIDE = 48
"""Width that the digits of 8x8 pixels are enlarged to: descriptors need room."""
SHOWN_RESULTS = 8
RIGHT, WRONG, PAPER = (60, 160, 60), (60, 60, 220), (255, 255, 255)  # blue, green, red


def demo(
    bits: Annotated[int, typer.Option("--bits", "-b", help="Bits per code.")] = 512,
    picture: Annotated[
        Path, typer.Option("--picture", "-p", help="Where to draw some queries and what was found (.png).")
    ] = Path("projbank-demo.png"),
    seed: Annotated[int, typer.Option(help="Seed of the split and of learning.")] = 0,
    jobs: Jobs = None,
) -> None:
    """Search pictures of digits from pixels to codes, and see what codes lost: half a minute."""
    import numpy as np
    from rich.table import Table
    from sklearn.neighbors import NearestNeighbors

    from projbank import HammingIndex, ProjectionBank
    from projbank.features import DenseSIFT, FisherVector
    from projbank.features.extractor import FeatureExtractor
    from projbank.metrics import precision_at_k

    images, labels = digit_images()
    order = np.random.default_rng(seed).permutation(len(labels))
    queries, gallery = order[:N_QUERIES], order[N_QUERIES:]
    print(f"{len(gallery):,} pictures of digits are searched, {len(queries)} ask. No labels are used for learning.\n")

    describe = DenseSIFT((4, 6, 8), smoothing=0, n_jobs=jobs)
    extractor = FeatureExtractor(describe, FisherVector(48, max_descriptors=60_000, random_state=seed, n_jobs=jobs))
    extractor, learning = _timed(lambda: extractor.fit(images[gallery]))
    vectors, encoding = _timed(lambda: extractor.transform(images))
    n_bytes = 4 * vectors.shape[1]
    print(f"1. Describe: dense SIFT and Fisher vectors make {vectors.shape[1]:,} numbers of each picture,")
    print(f"   {n_bytes:,} bytes ({learning + encoding:.1f} s).")

    table = Table("what is compared", "bytes", "right of 50", "us to code", "us to search")

    def add(name: str, size: float, ids: Any, coding: float | None, search: float) -> float:
        score = precision_at_k(ids, labels[gallery], labels[queries], N_RESULTS)
        table.add_row(
            name, f"{size:,.0f}", f"{score:.3f}", "-" if coding is None else f"{coding:.0f}", f"{search:,.0f}"
        )
        return score

    print("2. Learn: a bank of the paper, then the default, a headed bank:", flush=True)
    exact = NearestNeighbors(n_neighbors=N_RESULTS, algorithm="brute").fit(vectors[gallery])
    by_floats, seconds = _timed(lambda: exact.kneighbors(vectors[queries], return_distance=False))
    best = add("the numbers", n_bytes, by_floats, None, 1e6 * seconds / len(queries))
    score = 0.0
    for name, solver in (("codes of the paper", "paper"), ("codes by default", "mixed")):
        bank = ProjectionBank(bits, solver=solver, random_state=seed, n_jobs=jobs, verbose=verbosity(False, 0))
        bank, training = _timed(lambda bank=bank: bank.fit(vectors[gallery]))
        print(f"   {name}, {bits} bits: {training:.1f} s", flush=True)
        bank.transform(vectors[:8])  # the first call compiles
        codes, coding = _timed(lambda bank=bank: bank.transform(vectors))
        index = HammingIndex(codes[gallery])
        index.search(codes[queries[:1]], k=N_RESULTS)
        (_, by_codes), search = _timed(lambda index=index, codes=codes: index.search(codes[queries], k=N_RESULTS))
        score = add(name, bits / 8, by_codes, 1e6 * coding / len(codes), 1e6 * search / len(queries))
    print(f"3. Search: each of the {len(queries)} asks for {N_RESULTS} pictures. The share that shows its digit:\n")
    console().print(table)
    write_picture(picture, neighbour_sheet(images, labels, queries, gallery[by_floats], gallery[by_codes]))
    verdict = "more than" if score > best else "less than" if score < best else "as much as"
    print(f"\nCodes of {bits // 8} bytes instead of {n_bytes:,} find {verdict} the numbers they were made of.")
    print(f"What was found for a query of each digit: {picture}")
    print("Next: `projbank album PHOTOS`, or `projbank fit VECTORS.npy -o bank.safetensors`.")


def digit_images() -> tuple[Any, Any]:
    """Scikit-learn's digits, enlarged: (1797, 48, 48) uint8, and their labels."""
    import cv2
    import numpy as np
    from sklearn.datasets import load_digits

    digits = load_digits()
    grey = (digits.images * (255 / 16)).astype(np.float32)
    large = [cv2.resize(image, (SIDE, SIDE), interpolation=cv2.INTER_CUBIC) for image in grey]
    return np.clip(np.stack(large), 0, 255).astype(np.uint8), digits.target


def neighbour_sheet(images: Any, labels: Any, queries: Any, by_floats: Any, by_codes: Any) -> Any:
    """Draw the first query of each class with its nearest images by both searches.

    Parameters
    ----------
    images, labels : (n, h, w) uint8 and (n,)
    queries : (m,) rows of images
    by_floats, by_codes : (m, at least 8) rows of images, nearest first

    Returns
    -------
    (H, W, 3) uint8, blue-green-red: the frame of a result is green where its label is the query's, red otherwise
    """
    import cv2
    import numpy as np

    shown = slice(0, SHOWN_RESULTS)
    lines = []
    for i in np.unique(labels[queries], return_index=True)[1]:
        query = labels[queries[i]]
        asked = _framed(images[queries[i]], PAPER)
        floats, codes = (
            [_framed(images[j], RIGHT if labels[j] == query else WRONG) for j in results]
            for results in (by_floats[i, shown], by_codes[i, shown])
        )
        gap = np.full((asked.shape[0], SIDE // 2, 3), 255, np.uint8)
        lines.append(np.concatenate([asked, gap, *floats, gap, *codes], axis=1))
    sheet = np.concatenate(lines)
    head = np.full((SIDE // 2, sheet.shape[1], 3), 255, np.uint8)
    cell = lines[0].shape[0]
    starts = {"query": 2, "nearest by floats": cell + SIDE // 2 + 2}
    starts["nearest by codes"] = starts["nearest by floats"] + SHOWN_RESULTS * cell + SIDE // 2
    for text, x in starts.items():
        cv2.putText(head, text, (x, SIDE // 3), cv2.FONT_HERSHEY_SIMPLEX, 0.4, (0, 0, 0), 1, cv2.LINE_AA)
    return np.concatenate([head, sheet])


def write_picture(path: Path, picture: Any) -> None:
    """Write a picture as PNG, whole or not at all."""
    import cv2

    from projbank.files import atomic_path

    with atomic_path(path, kind="picture") as temporary:
        temporary.write_bytes(cv2.imencode(".png", picture)[1].tobytes())


def _framed(image: Any, colour: tuple[int, int, int]) -> Any:
    import cv2

    framed = cv2.copyMakeBorder(
        cv2.cvtColor(255 - image, cv2.COLOR_GRAY2BGR), 2, 2, 2, 2, cv2.BORDER_CONSTANT, value=colour
    )
    return cv2.copyMakeBorder(framed, 2, 2, 2, 2, cv2.BORDER_CONSTANT, value=PAPER)


def _timed(work: Any) -> tuple[Any, float]:
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start
