"""KBPB: the paper's kernel bank on k-means groups, with the polynomial kernel (KBPB 1) and the RBF kernel (KBPB 2)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from projbank.methods.banks import KernelBankMethod


class PolynomialKBPB(KernelBankMethod):
    """`KernelProjectionBank(kernel="poly")`; parameters and attributes as there."""

    def __init__(
        self,
        n_bits: int | str = "auto",
        *,
        n_basis: int = 1500,
        degree: int = 2,
        gamma: str | float = "scale",
        n_landmarks: int | None = None,
        grouping: str | ArrayLike = "auto",
        n_assign: int = 2,
        n_neighbors: int = 100,
        lam: float = 1.0,
        max_iter: int = 70,
        kmeans_iter: int = 20,
        random_state: int | np.random.RandomState | None = 0,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            n_bits,
            kernel="poly",
            n_basis=n_basis,
            degree=degree,
            gamma=gamma,
            n_landmarks=n_landmarks,
            grouping=grouping,
            n_assign=n_assign,
            n_neighbors=n_neighbors,
            lam=lam,
            max_iter=max_iter,
            kmeans_iter=kmeans_iter,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
        )


class RadialKBPB(KernelBankMethod):
    """`KernelProjectionBank(kernel="rbf")`; parameters and attributes as there."""

    def __init__(
        self,
        n_bits: int | str = "auto",
        *,
        n_basis: int = 1500,
        sigma: str | float = "adaptive",
        sigma_neighbors: int = 10,
        sigma_factor: float = 8.0,
        n_landmarks: int | None = None,
        landmark_width: float = 1.0,
        grouping: str | ArrayLike = "auto",
        n_assign: int = 2,
        n_neighbors: int = 100,
        lam: float = 1.0,
        max_iter: int = 70,
        kmeans_iter: int = 20,
        random_state: int | np.random.RandomState | None = 0,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            n_bits,
            kernel="rbf",
            n_basis=n_basis,
            sigma=sigma,
            sigma_neighbors=sigma_neighbors,
            sigma_factor=sigma_factor,
            n_landmarks=n_landmarks,
            landmark_width=landmark_width,
            grouping=grouping,
            n_assign=n_assign,
            n_neighbors=n_neighbors,
            lam=lam,
            max_iter=max_iter,
            kmeans_iter=kmeans_iter,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
        )
