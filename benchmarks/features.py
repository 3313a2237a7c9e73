"""What do descriptors and encoders cost, next to OpenCV and to the matrix products that they need? One thread, one run.

    python -m benchmarks.features

Photos are the two that come with scikit-learn; descriptors to encode are those of one of them.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any

import cv2
import numpy as np
from sklearn.datasets import load_sample_images
from threadpoolctl import threadpool_limits

from benchmarks.common import best_seconds, report, result_path, row, write_result
from projbank.features import VLAD, DenseSIFT, DenseTrajectories, FisherVector
from projbank.features.sift import OPENCV_SIZE_PER_BIN

N_DESCRIPTORS, N_COMPONENTS = 4_000, 250


def grey_photos() -> dict[str, Any]:
    photos = [cv2.cvtColor(image, cv2.COLOR_RGB2GRAY) for image in load_sample_images().images]
    crops = [np.ascontiguousarray(photo[100:260, 200:360]) for photo in photos]
    names = ("china 640x427", "flower 640x427", "china 160x160", "flower 160x160")
    return dict(zip(names, photos + crops, strict=True))


def measure_dense_sift() -> list[dict[str, Any]]:
    rows = []
    for name, photo in grey_photos().items():
        dense = DenseSIFT(root=False, low_contrast="keep", n_jobs=1)
        frames, vectors = dense.compute(photo)
        points = [cv2.KeyPoint(x, y, size * OPENCV_SIZE_PER_BIN, 0) for x, y, size in frames.tolist()]
        opencv = functools.partial(cv2.SIFT.create().compute, photo, points)
        theirs = opencv()[1]
        lengths = np.linalg.norm(theirs, axis=1)
        cosines = (vectors * theirs).sum(axis=1)[lengths > 0] / lengths[lengths > 0]
        times = best_seconds(
            {
                "opencv": opencv,
                "dense": functools.partial(dense.compute, photo),
                "default": functools.partial(DenseSIFT(n_jobs=1).compute, photo),
            },
            turns=25,
        )
        spent = {what: f"{1e3 * time:.2f} ms" for what, time in times.items()}
        print(f"{name}: {len(vectors)} descriptors in {spent['dense']}, OpenCV {spent['opencv']}")
        rows += [
            row(f"{name}: OpenCV's SIFT.compute / DenseSIFT, same grid", times["opencv"] / times["dense"], least=15),
            row(f"{name}: the same, RootSIFT of strong patches only", times["opencv"] / times["default"], least=15),
            row(f"{name}: mean cosine of both", float(cosines.mean()), least=0.9),
        ]
    return rows


def measure_encoders() -> list[dict[str, Any]]:
    photo = grey_photos()["china 640x427"]
    descriptors = DenseSIFT(n_jobs=1).compute(photo)[1]
    drawn = np.random.default_rng(0).choice(len(descriptors), N_DESCRIPTORS, replace=False)
    bag = np.ascontiguousarray(descriptors[drawn])
    fisher = FisherVector(N_COMPONENTS, max_iter=5, n_jobs=1).fit(descriptors)
    vlad = VLAD(N_COMPONENTS, max_iter=5, n_jobs=1).fit(descriptors)
    squares = bag * bag
    first = np.ascontiguousarray((fisher.means_ / fisher.variances_).T)
    second = np.ascontiguousarray((-0.5 / fisher.variances_).T)
    posteriors = np.random.default_rng(0).dirichlet(np.full(N_COMPONENTS, 0.01), N_DESCRIPTORS).astype(np.float32)
    both, stacked = np.concatenate([bag, squares], axis=1), np.concatenate([first, second])
    transposed = np.ascontiguousarray(vlad.centres_.T)
    times = best_seconds(
        {
            "four products": lambda: (bag @ first, squares @ second, posteriors.T @ bag, posteriors.T @ squares),
            "two products": lambda: (both @ stacked, posteriors.T @ both),
            "fisher": lambda: fisher.transform([bag]),
            "vlad product": lambda: bag @ transposed,
            "vlad": lambda: vlad.transform([bag]),
        },
        turns=25,
    )
    spent = {what: f"{1e3 * time:.1f} ms" for what, time in times.items()}
    print(f"{N_DESCRIPTORS} descriptors: Fisher vector {spent['fisher']}, VLAD {spent['vlad']}")
    return [
        row("Fisher vector / its four matrix products", times["fisher"] / times["four products"], most=1.3),
        row("Fisher vector / the same as two wider products", times["fisher"] / times["two products"], most=1.3),
        row("VLAD / its matrix product", times["vlad"] / times["vlad product"]),
    ]


def measure_trajectories() -> list[dict[str, Any]]:
    """A pan over a photo, 30 frames of 192x144."""
    photo = grey_photos()["china 640x427"]
    frames = [np.ascontiguousarray(photo[100:244, 3 * t : 3 * t + 192]) for t in range(30)]
    describer = DenseTrajectories(n_scales=1, n_jobs=1)

    def flow() -> None:
        for before, after in itertools.pairwise(frames):
            cv2.calcOpticalFlowFarneback(before, after, None, 0.5**0.5, 5, 10, 2, 7, 1.5, 0)  # type: ignore[call-overload]

    times = best_seconds({"flow": flow, "all": lambda: describer.compute(frames)})
    print(f"{len(describer.compute(frames)[1])} trajectories of 30 frames in {times['all']:.2f} s")
    return [row("dense trajectories, one scale / the optical flow alone", times["all"] / times["flow"])]


def main() -> None:
    path = result_path("features")
    cv2.setNumThreads(1)
    with threadpool_limits(1):
        rows = measure_dense_sift() + measure_encoders() + measure_trajectories()
    report(rows)
    write_result(path, {"descriptors": N_DESCRIPTORS, "components": N_COMPONENTS, "ratios": rows})


if __name__ == "__main__":
    main()
