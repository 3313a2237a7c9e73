"""BPB: the paper's binary projection bank, k-means groups and max-margin weights."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from projbank.methods.banks import BankMethod


class BPB(BankMethod):
    """`ProjectionBank(solver="paper")` with the paper's grouping; parameters and attributes as there."""

    def __init__(
        self,
        n_bits: int | str = "auto",
        *,
        grouping: str | ArrayLike = "auto",
        n_assign: int = 2,
        n_neighbors: int = 100,
        lam: float = 1.0,
        max_iter: int = 70,
        init: str = "leading",
        kmeans_iter: int = 20,
        random_state: int | np.random.RandomState | None = 0,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            n_bits,
            solver="paper",
            grouping=grouping,
            n_assign=n_assign,
            n_neighbors=n_neighbors,
            lam=lam,
            max_iter=max_iter,
            init=init,
            kmeans_iter=kmeans_iter,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
        )
