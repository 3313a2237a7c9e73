"""KernelProjectionBank: the estimator of KBPB. Learning stands in `projbank.learn`, coding in `projbank.models`."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from projbank.base import INITS, ModelCoder
from projbank.learn.run import Place
from projbank.params import auto, check_choice, check_int, checks, not_negative, one_of, positive, reject, whole

if TYPE_CHECKING:
    from projbank.models.mercer_bank import MercerBank

KERNELS = ("rbf", "poly", "linear")
MAX_DEGREE = 100
"""Values of a polynomial kernel take one product per degree, and would leave float32 long before."""


@dataclass(eq=False, repr=False)
class KernelProjectionBank(ModelCoder):
    """Binary codes of very long vectors by kernels on short pieces of them: KBPB of Liu, Yu and Shao (ICCV 2015).

    The D dimensions are split into `n_bits` groups; bit p is 1 iff g_p(x) = sum_i a_i k(x_i, x) - b is above 0, where
    k looks at the dimensions of group p only and x_1 .. x_n are basis samples that all groups share.

    Parameters
    ----------
    n_bits : int or "auto"
        Bits per code, at most D. "auto": about D / 16, a multiple of 64 where D allows.
    kernel : {"rbf", "poly", "linear"} or callable
        exp(-|x - y|^2 / sigma^2); (gamma x . y + 1)^degree; x . y; or a function of two arrays (n1, m) and (n2, m)
        that gives the (n1, n2) values of a kernel that satisfies Mercer's condition. A bank with a function can be
        pickled where the function can, but not saved to a model file.
    n_basis : int
        Basis samples, drawn from the training data; above N it is lowered with a warning.
    degree : int
        Degree of the polynomial kernel, the paper's tau.
    gamma : "scale" or float
        Scale of the polynomial kernel; 1.0 is the paper's form, "scale" is 1 / (mean squared length of the basis
        samples) in each group.
    sigma : "adaptive", "pairwise" or float
        Width of the RBF kernel. "adaptive": `sigma_factor` times the mean distance of the basis samples to their
        `sigma_neighbors` nearest, in each group. "pairwise" (Bai et al. 2010): one of each pair, `sigma_factor` times
        the mean of both vectors' own mean distances to their nearest basis samples; coding is slower.
    sigma_neighbors : int
    sigma_factor : float
    n_landmarks : int or None
        Replace the basis by so many landmarks in each group's own dimensions and refit the coefficients, so that
        coding costs `n_landmarks` kernels for each bit instead of `n_basis`. None: the paper's form.
    landmark_width : float
        Width of the landmarks' RBF kernels, in units of sigma; above 1 where sigma is narrow.
    grouping : {"auto", "kmeans", "kmeans-equal", "random", "contiguous"} or array of int
        Which dimensions share a bit, as for `ProjectionBank`. "auto": k-means, as in the paper.
    n_assign, n_neighbors, lam, max_iter, tol, init, kmeans_iter, random_state, n_jobs, verbose
        As for `ProjectionBank`'s paper solver; `init` are coefficients.

    Attributes
    ----------
    indptr_ : (n_bits + 1,) int64
    columns_ : (m,) int32
        Dimensions of group p: ``columns_[indptr_[p]:indptr_[p + 1]]``; m is D for hard groupings.
    basis_ : (n, D) float32
        The basis samples; (0, D) where landmarks stand for them.
    landmarks_ : (n_landmarks, m) float32
        Landmarks of every group, in the order of `columns_`; (0, 0) without landmarks.
    coefficients_ : (n_bits, n) float32
        Coefficients of the basis samples or landmarks.
    biases_ : (n_bits,) float32
    scales_ : (n_bits,) float32
        Widths of the RBF kernel, or gammas of a polynomial one, as coding uses them. With pairwise widths (n_bits, n):
        mean distances of the basis samples to their nearest.
    means_ : (D,) float32
        Means of the training data, from which RBF distances are measured.
    group_sizes_ : (n_bits,) int64
    loss_curve_ : (n_iter + 1,) float64
        Mean over groups of L / (lam n^2) after each step.
    n_bits_, n_iter_ : int
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from projbank import KernelProjectionBank
    >>> X = np.random.default_rng(0).standard_normal((200, 256), dtype=np.float32)
    >>> bank = KernelProjectionBank(n_bits=32, n_basis=100, n_neighbors=10).fit(X)
    >>> bank.transform(X).shape
    (200, 4)
    """

    model_: MercerBank = field(init=False)
    _identity_params = ("kernel", "degree")

    n_bits: int | str = "auto"
    _: KW_ONLY
    kernel: str | Callable[[NDArray, NDArray], Any] = "rbf"
    n_basis: int = 1500
    degree: int = 2
    gamma: str | float = "scale"
    sigma: str | float = "adaptive"
    sigma_neighbors: int = 10
    sigma_factor: float = 8.0
    n_landmarks: int | None = None
    landmark_width: float = 1.0
    grouping: str | ArrayLike = "auto"
    n_assign: int | str = "auto"
    n_neighbors: int = 100
    lam: float = 1.0
    max_iter: int = 70
    tol: float = 1e-6
    init: str = "leading"
    kmeans_iter: int = 20
    random_state: int | np.random.RandomState | None = 0
    n_jobs: int | None = None
    verbose: int = 0

    _checks = checks(
        n_basis=whole(2),
        degree=whole(1, MAX_DEGREE),
        gamma=auto(positive, "scale"),
        sigma=auto(positive, "adaptive", "pairwise"),
        sigma_neighbors=whole(1),
        sigma_factor=positive,
        landmark_width=positive,
        n_neighbors=whole(1),
        lam=positive,
        max_iter=whole(1),
        tol=not_negative,
        init=one_of(*INITS),
        kmeans_iter=whole(1),
    )

    def reduced(self, n_landmarks: int) -> Self:
        """A copy of the fitted bank with landmarks in place of its basis, as if fitted with that `n_landmarks`."""
        from projbank.learn.landmarks import with_landmarks

        check_is_fitted(self)
        if len(self.landmarks_):
            raise ValueError(f"The bank has {len(self.landmarks_)} landmarks already; reduce one that has its basis.")
        few = copy.copy(self)
        few.n_landmarks = n_landmarks
        few._check_parameters()
        few._adopt(with_landmarks(self.model_, n_landmarks, self.landmark_width, self._run()))
        return few

    @property
    def _place(self) -> Place:
        return Place("projbank.learn.mercer:MercerLearner", "projbank.models.mercer_bank:MercerBank")

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not callable(self.kernel):
            check_choice(self, "kernel", self.kernel, KERNELS)
        if self.n_landmarks is not None:
            check_int(self, "n_landmarks", self.n_landmarks, 1)
            if callable(self.kernel) or self.sigma == "pairwise":
                why = "None where the kernel is a function or sigma is 'pairwise'"
                reject(self, "n_landmarks", why, self.n_landmarks)

    @classmethod
    def _from_file(cls, params: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Self:
        params.pop("solver", None)  # files of 0.1.0
        return super()._from_file(params, arrays)
