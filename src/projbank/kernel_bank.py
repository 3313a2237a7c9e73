"""KernelProjectionBank: the estimator of KBPB. Learning and coding live in modules of their own."""

from __future__ import annotations

import copy
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from projbank.base import BankCoder
from projbank.learn import mercer as kernel_learning
from projbank.learn import mercer_joint as kernel_joint
from projbank.learn.grouping import groups_per_dimension, resolve_grouping
from projbank.learn.landmarks import reduce_basis
from projbank.learn.neighbors import neighbor_graph
from projbank.learn.target import SimilarityTarget
from projbank.models.file import ModelFileError
from projbank.models.mercer import Groups, KernelBank, KernelFunction, Scaling
from projbank.params import check_choice, check_int, check_positive, reject
from projbank.progress import say
from projbank.rows.source import column_statistics, take_rows
from projbank.threads import thread_count

KERNELS = ("rbf", "poly", "linear")
SOLVERS = ("paper", "joint")
AUTO_GROUPING = {"paper": "kmeans", "joint": "learnt"}
JOINT_LANDMARKS = 64


class KernelProjectionBank(BankCoder):
    """Binary codes of very long vectors by kernels on short pieces of them: KBPB of Liu, Yu and Shao (ICCV 2015).

    The D dimensions are split into `n_bits` groups; bit p is 1 iff g_p(x) = sum_i a_i k(x_i, x) - b is above 0, where
    k looks at the dimensions of group p only and x_1 .. x_n are basis samples that all groups share.

    Parameters
    ----------
    n_bits : int or "auto"
        Bits per code, at most D. "auto": about D / 16, a multiple of 64 where D allows.
    solver : {"paper", "joint"}
        "paper": each bit for itself by the pair hinge, as in the paper. "joint": landmarks whose coefficients are
        learnt together, so that similarities of codes follow those of the data (docs/kernel-bank.md).
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
    sigma : "adaptive" or float
        Width of the RBF kernel; "adaptive" is `sigma_factor` times the mean distance of the basis samples to their
        `sigma_neighbors` nearest, in each group.
    sigma_neighbors : int
    sigma_factor : float
    n_landmarks : int or None
        Replace the basis by so many landmarks in each group's own dimensions and refit the coefficients, so that
        coding costs `n_landmarks` kernels for each bit instead of `n_basis`. None: the paper's form; 64 for the joint
        solver, which always has landmarks.
    landmark_width : float
        Width of the landmarks' RBF kernels, in units of sigma; above 1 where sigma is narrow (paper's solver).
    grouping : {"auto", "learnt", "kmeans", "random", "contiguous", "soft", "soft-..."} or array of int
        Which dimensions share a bit, as for `ProjectionBank`. "auto": k-means, as in the paper; learnt for the joint
        solver.
    n_assign : int
        Groups that each dimension serves under a soft grouping.
    n_neighbors : int
        Neighbours of a training vector that count as similar; above N - 1 it is lowered with a warning.
    lam : float
        Weight of the pair loss against the regulariser.
    max_iter : int
        Steps of gradient descent.
    tol : float
        A group stops when its loss per pair changes by less than this.
    init : {"leading", "equal", "random"}
        Starting coefficients, as for `ProjectionBank`.
    kmeans_iter : int
        Iterations of k-means.
    random_state : int, RandomState or None
        Same seed and data give the same bits, whatever the number of threads.
    n_jobs : int or None
        Threads; None and -1 are all cores.
    verbose : int
        1 shows progress bars on a terminal and the course of learning, 2 also that of k-means.

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
        Widths of the RBF kernel, or gammas of a polynomial one, as coding uses them.
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

    _saved_arrays: ClassVar[tuple[str, ...]] = (
        "indptr_",
        "columns_",
        "basis_",
        "landmarks_",
        "coefficients_",
        "biases_",
        "scales_",
        "means_",
        "loss_curve_",
    )

    def __init__(
        self,
        n_bits: int | str = "auto",
        *,
        solver: str = "paper",
        kernel: str | KernelFunction = "rbf",
        n_basis: int = 1500,
        degree: int = 2,
        gamma: str | float = "scale",
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
        tol: float = 1e-6,
        init: str = "leading",
        kmeans_iter: int = 20,
        random_state: int | np.random.RandomState | None = 0,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_bits = n_bits
        self.solver = solver
        self.kernel = kernel
        self.n_basis = n_basis
        self.degree = degree
        self.gamma = gamma
        self.sigma = sigma
        self.sigma_neighbors = sigma_neighbors
        self.sigma_factor = sigma_factor
        self.n_landmarks = n_landmarks
        self.landmark_width = landmark_width
        self.grouping = grouping
        self.n_assign = n_assign
        self.n_neighbors = n_neighbors
        self.lam = lam
        self.max_iter = max_iter
        self.tol = tol
        self.init = init
        self.kmeans_iter = kmeans_iter
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: Any, y: None = None) -> Self:
        """Learn the bank.

        Parameters
        ----------
        X : (n, D) array, memory map, scipy.sparse matrix or h5py data set, read in blocks
        y : ignored

        Returns
        -------
        self
        """
        self._check_parameters()
        X = self._check_rows(X, reset=True)
        n_samples, n_features = X.shape
        n_bits = self._resolve_bits(n_features)
        n_assign = groups_per_dimension(self, n_bits, n_features)
        n_neighbors = self._lowered("n_neighbors", n_samples - 1, n_samples)
        n_basis = self._lowered("n_basis", n_samples, n_samples)
        n_threads = thread_count(self.n_jobs)
        seed = self._seed()
        rng = np.random.default_rng(seed)

        means, deviations = column_statistics(X)
        grouping = resolve_grouping(self.grouping, AUTO_GROUPING[self.solver])
        target, signs = None, None
        if self.solver == "joint":
            target = SimilarityTarget(X, means, n_neighbors, n_threads=n_threads, verbose=self.verbose)
            statistics = means, deviations
            labels, signs = self._joint_groups(X, grouping, target, statistics, n_bits, n_assign, seed, n_threads)
        else:
            labels = self._group(X, grouping, n_bits, n_assign, rng, n_threads)
        groups = Groups.from_labels(labels, n_bits)
        chosen = np.sort(rng.choice(n_samples, n_basis, replace=False))
        basis = np.empty((n_basis, n_features), np.float32)
        take_rows(X, chosen, basis)

        self.indptr_, self.columns_ = groups.indptr, groups.columns
        self.means_ = means.astype(np.float32)
        self.basis_, self.landmarks_ = basis, np.empty((0, 0), np.float32)
        self.scales_ = self._scales(basis, groups, n_threads)
        if target is None:
            graph = neighbor_graph(X, n_neighbors, means, n_threads=n_threads, verbose=self.verbose)
            graph = graph[chosen][:, chosen]
            graph.sort_indices()
            self._learn_apart(groups, graph, seed, n_threads)
        else:
            scaling = self._form()
            assert isinstance(scaling, Scaling)  # no function: `_check_parameters`
            self.landmarks_, self.coefficients_, self.biases_, self.loss_curve_ = kernel_joint.learn_bank(
                X,
                labels,
                groups,
                target,
                scaling,
                basis,
                means,
                signs=signs,
                deviation=float(np.sqrt(np.mean(deviations**2))),
                n_landmarks=min(self.n_landmarks or JOINT_LANDMARKS, n_basis),
                max_iter=self.max_iter,
                seed=seed,
                n_threads=n_threads,
                verbose=self.verbose,
            )
            self.basis_ = basis[:0]
        say(f"loss: {self.loss_curve_[0]:.4f} to {self.loss_curve_[-1]:.4f}", self.verbose)
        self._derive()
        return self

    def _learn_apart(self, groups: Groups, graph: sp.csr_array, seed: int, n_threads: int) -> None:
        """The paper's learner, and its reduction to landmarks where those are wanted."""
        self.coefficients_, self.biases_, curves = kernel_learning.learn(
            self.basis_,
            groups,
            graph,
            self._form(),
            lam=self.lam,
            max_iter=self.max_iter,
            tol=self.tol,
            init=self.init,
            seed=seed,
            n_threads=n_threads,
            verbose=self.verbose,
        )
        self.loss_curve_ = curves.mean(axis=0)
        if self.n_landmarks is not None:
            self._reduce(seed, n_threads)

    def reduced(self, n_landmarks: int) -> Self:
        """A copy of the fitted bank with landmarks in place of its basis, as if fitted with that `n_landmarks`."""
        check_is_fitted(self)
        if len(self.landmarks_):
            raise ValueError(f"The bank has {len(self.landmarks_)} landmarks already; reduce one that has its basis.")
        few = copy.copy(self)
        few.n_landmarks = n_landmarks
        few._check_parameters()
        few._reduce(self._seed(), thread_count(self.n_jobs))
        few._derive()
        return few

    def _reduce(self, seed: int, n_threads: int) -> None:
        """Put landmarks in place of the basis."""
        n_landmarks = min(int(self.n_landmarks or 1), len(self.basis_))
        scaling = self._form()
        assert isinstance(scaling, Scaling)  # no function: `_check_parameters`
        if self.kernel == "rbf":
            self.scales_ = self.scales_ * np.float32(self.landmark_width)
        wide = self._form()
        assert isinstance(wide, Scaling)
        self.landmarks_, self.coefficients_, self.biases_ = reduce_basis(
            self.basis_,
            Groups(self.indptr_, self.columns_),
            scaling,
            self.coefficients_,
            self.biases_,
            n_landmarks,
            wide,
            seed=seed,
            n_threads=n_threads,
            verbose=self.verbose,
        )
        self.basis_ = self.basis_[:0]

    def _check_parameters(self) -> None:
        self._check_shared_parameters(learnt=self.solver == "joint")
        check_choice(self, "solver", self.solver, SOLVERS)
        if not callable(self.kernel):
            check_choice(self, "kernel", self.kernel, KERNELS)
        check_int(self, "n_basis", self.n_basis, 2)
        check_int(self, "degree", self.degree, 1)
        if not (isinstance(self.gamma, str) and self.gamma == "scale"):
            check_positive(self, "gamma", self.gamma)
        if not (isinstance(self.sigma, str) and self.sigma == "adaptive"):
            check_positive(self, "sigma", self.sigma)
        check_int(self, "sigma_neighbors", self.sigma_neighbors, 1)
        check_positive(self, "sigma_factor", self.sigma_factor)
        if self.n_landmarks is not None:
            check_int(self, "n_landmarks", self.n_landmarks, 1)
            if callable(self.kernel):
                reject(self, "n_landmarks", "None where the kernel is a function", self.n_landmarks)
        if self.solver == "joint" and callable(self.kernel):
            reject(self, "kernel", "one of " + ", ".join(map(repr, KERNELS)) + " for the joint solver", self.kernel)
        check_positive(self, "landmark_width", self.landmark_width)

    def _scales(self, basis: NDArray[np.float32], groups: Groups, n_threads: int) -> NDArray[np.float32]:
        """Widths of the RBF kernel or gammas of a polynomial one; ones where the kernel has neither."""
        scales = np.ones(len(groups), np.float32)
        if self.kernel == "rbf" and isinstance(self.sigma, str):
            scales = kernel_learning.adaptive_sigmas(
                basis, groups, self.sigma_neighbors, self.sigma_factor, n_threads=n_threads
            )
        elif self.kernel == "rbf":
            scales[:] = self.sigma
        elif self.kernel == "poly" and isinstance(self.gamma, str):
            scales = kernel_learning.scale_gammas(basis, groups)
        elif self.kernel == "poly":
            scales[:] = self.gamma
        return scales

    def _form(self) -> Scaling | KernelFunction:
        """Scaling of a built-in kernel, or the user's function."""
        if callable(self.kernel):
            return self.kernel
        groups = Groups(self.indptr_, self.columns_)
        if self.kernel == "rbf":
            return Scaling.radial(groups, self.scales_, self.means_)
        if self.kernel == "poly":
            return Scaling.polynomial(groups, self.scales_, self.degree)
        return Scaling.linear(groups)

    def _derive(self) -> None:
        """Set what follows from the learnt arrays."""
        groups = Groups(self.indptr_, self.columns_)
        self.n_bits_ = len(self.coefficients_)
        self.n_iter_ = len(self.loss_curve_) - 1
        self.group_sizes_ = groups.sizes
        values = self.landmarks_ if len(self.landmarks_) else self.basis_[:, self.columns_]
        self._bank = KernelBank(groups, values, self.coefficients_, self.biases_, self._form())

    def _check_loaded(self) -> None:
        arrays = {name: getattr(self, name) for name in self._saved_arrays}
        kinds = ["int64", "int32", *["float32"] * 6, "float64"]
        found = [str(array.dtype) for array in arrays.values()]
        if found != kinds:
            raise ModelFileError(f"arrays have the wrong types: {', '.join(found)}")
        shapes = {name: array.shape for name, array in arrays.items()}
        if self.coefficients_.ndim != 2 or self.basis_.ndim != 2 or self.columns_.ndim != 1:
            raise ModelFileError(f"arrays do not fit each other: {shapes}")
        (n_bits, n_basis), n_features = self.coefficients_.shape, self.basis_.shape[1]
        reduced = len(self.landmarks_) > 0
        expected = {
            "basis_": (0 if reduced else n_basis, n_features),
            "landmarks_": (n_basis, len(self.columns_)) if reduced else (0, 0),
            "biases_": (n_bits,),
            "scales_": (n_bits,),
            "means_": (n_features,),
        }
        if any(shapes[name] != shape for name, shape in expected.items()) or 0 in self.coefficients_.shape:
            raise ModelFileError(f"arrays do not fit each other: {shapes}")
        if not Groups(self.indptr_, self.columns_).are_valid(n_bits, n_features):
            raise ModelFileError("indptr_ and columns_ are no groups of dimensions")
        if not (self.scales_ > 0).all():
            raise ModelFileError("scales_ are not all above 0")
        self._check_parameters()
        self.n_features_in_ = n_features
        self._derive()
