"""ProjectionBank: the estimator. Grouping, neighbours, learning and coding live in modules of their own."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from projbank.base import BankCoder
from projbank.learn import joint, paper
from projbank.learn.grouping import group_columns, groups_per_dimension, resolve_grouping
from projbank.learn.neighbors import neighbor_graph
from projbank.learn.target import SimilarityTarget
from projbank.models.bank import Bank
from projbank.models.file import ModelFileError
from projbank.params import check_choice, check_positive
from projbank.progress import say
from projbank.rows.source import RepeatedRows, ScaledRows, column_statistics, nonzeros_per_row
from projbank.threads import thread_count

SOLVERS = ("paper", "joint", "random")


class ProjectionBank(BankCoder):
    """Binary codes of very long vectors in one pass: every dimension adds to one bit.

    The D dimensions are split into `n_bits` groups; bit p is 1 iff the weighted sum of group p is above its bias. A
    bank is D weights, D group labels and `n_bits` biases, and coding costs D multiply-adds, whatever `n_bits` is. In a
    soft bank a dimension serves r groups and has r weights, at up to r times the cost (docs/soft.md).

    Parameters
    ----------
    n_bits : int or "auto"
        Bits per code, at most D, or `n_assign` * D for soft groupings. "auto": about D / 16, a multiple of 64 where D
        allows.
    solver : {"joint", "paper", "random"}
        How weights are learnt. "paper": BPB of Liu, Yu and Shao (ICCV 2015), each bit for itself by the pair hinge.
        "joint": all weights together, so that similarities of codes follow those of the data. "random": random signs,
        where "joint" starts; to see what learning is worth.
    grouping : {"auto", "learnt", "kmeans", "random", "contiguous", "soft", "soft-..."} or array of int
        Which dimensions share a bit; an array gives each dimension's group, 0 to n_bits - 1, shape (D,), or its r
        groups, shape (r, D). "auto": "learnt" for the joint solver (where 7 of 8 values are 0, "soft-learnt" with as
        many groups per dimension as the zeros pay for: docs/joint.md), k-means for the paper's, else random.
        "learnt": a dimension joins a bit that it can serve well, and may move to others while weights are learnt
        (joint solver; random groups where there are fewer than 64 vectors to learn from). "soft-kmeans": a dimension
        joins its `n_assign` nearest centres; "soft-learnt" and "soft-random": `n_assign` groupings are laid over each
        other; "soft" is the one that fits the solver.
    n_assign : int
        Groups that a dimension serves in a soft grouping; above `n_bits` - 1 it is lowered with a warning.
    n_neighbors : int
        Neighbours of a training vector that count as similar; above N - 1 it is lowered with a warning.
    lam : float
        Weight of the pair loss against the regulariser (paper's solver).
    max_iter : int
        Iterations: steps of gradient descent ("paper"), or rounds of 8 mini-batches ("joint", which stops
        earlier when held-back vectors gain no more).
    noise : float
        Deviation of the noise on relaxed bits, in those of their margins, against learning vectors by heart (joint
        solver; less below 256 bits). With less of it codes follow finer neighbourhoods: better for small classes.
    tol : float
        A group stops when its loss per pair changes by less than this (paper's solver).
    init : {"leading", "equal", "random"}
        Starting weights of a group (paper's solver): the direction in which the loss falls most near 0, equal
        weights, or Gaussian ones; each at the scale where the loss is least.
    standardize : bool
        Divide every dimension by its standard deviation before grouping and learning; coding costs no more, for the
        weights take it up.
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
    labels_ : (D,) int32, or (r, D) int32 for soft groupings
        Group, or groups, of each dimension.
    weights_ : float32
        Weight of each dimension in its group or groups, shaped as `labels_`.
    biases_ : (n_bits,) float32
    group_sizes_ : (n_bits,) int64
        Dimensions of each group.
    loss_curve_ : (n_iter + 1,) float64
        Loss after each iteration: the mean over groups of L / (lam N^2), which is 1 at w = 0 ("paper"), or 1 minus the
        correlation of similarities plus imbalance ("joint"). Empty where nothing is learnt ("random").
    n_bits_ : int
    n_iter_ : int
        Iterations until the last group stopped.
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from projbank import ProjectionBank
    >>> X = np.random.default_rng(0).standard_normal((200, 1024), dtype=np.float32)
    >>> bank = ProjectionBank(n_bits=128, solver="paper", n_neighbors=10).fit(X)
    >>> bank.transform(X).shape
    (200, 16)
    """

    _auto_grouping: ClassVar[dict[str, str]] = {"paper": "kmeans", "joint": "learnt", "random": "random"}
    _saved_arrays: ClassVar[tuple[str, ...]] = ("labels_", "weights_", "biases_", "loss_curve_")

    def __init__(
        self,
        n_bits: int | str = "auto",
        *,
        solver: str = "joint",
        grouping: str | ArrayLike = "auto",
        n_assign: int = 2,
        n_neighbors: int = 100,
        lam: float = 1.0,
        max_iter: int = 70,
        noise: float = 0.5,
        tol: float = 1e-6,
        init: str = "leading",
        standardize: bool = False,
        kmeans_iter: int = 20,
        random_state: int | np.random.RandomState | None = 0,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_bits = n_bits
        self.solver = solver
        self.grouping = grouping
        self.n_assign = n_assign
        self.n_neighbors = n_neighbors
        self.lam = lam
        self.max_iter = max_iter
        self.noise = noise
        self.tol = tol
        self.init = init
        self.standardize = standardize
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
        n_threads = thread_count(self.n_jobs)
        seed = self._seed()

        means, deviations = column_statistics(X)
        scale = np.ones(n_features, np.float32)
        if self.standardize:
            scale = np.where(deviations > 0, deviations, 1.0).astype(np.float32)
            X, means, deviations = ScaledRows(X, scale), means / scale, deviations / scale
        grouping = resolve_grouping(self.grouping, self._auto_grouping[self.solver])
        if isinstance(self.grouping, str) and self.grouping == "auto" and self.solver != "paper":
            n_assign = joint.groups_for_sparse(nonzeros_per_row(X), n_bits, n_features)
            grouping = grouping if n_assign == 1 else f"soft-{grouping}"
        settings = {"seed": seed, "max_iter": self.max_iter, "n_threads": n_threads, "verbose": self.verbose}
        deviation = float(np.sqrt(np.mean(deviations**2)))
        if self.solver == "joint":
            target = SimilarityTarget(X, means, n_neighbors, n_threads=n_threads, verbose=self.verbose)
            labels, signs = self._joint_groups(
                X, grouping, target, (means, deviations), n_bits, n_assign, seed, n_threads
            )
            labels, weights, biases, curve = joint.learn(
                X,
                labels,
                target,
                means,
                deviation=deviation,
                n_bits=n_bits,
                noise=self.noise,
                signs=signs,
                deviations=None if signs is None else deviations,  # groups that were not learnt stay as they are
                **settings,
            )
        elif self.solver == "random":
            labels = self._group(X, grouping, n_bits, n_assign, np.random.default_rng(seed), n_threads)
            weights, biases = joint.draw_bank(labels, means, deviation=deviation, n_bits=n_bits, seed=seed)
            curve = np.empty(0)
        else:
            labels = self._group(X, grouping, n_bits, n_assign, np.random.default_rng(seed), n_threads)
            graph = neighbor_graph(X, n_neighbors, means, n_threads=n_threads, verbose=self.verbose)
            if labels.ndim == 2:
                X, means = RepeatedRows(X, len(labels)), np.tile(means, len(labels))
            weights, biases, curves = paper.learn(
                X, labels.ravel(), graph, means, n_bits=n_bits, lam=self.lam, tol=self.tol, init=self.init, **settings
            )
            curve = curves.mean(axis=0)
        if len(curve):
            say(f"loss: {_sample(curve)}", self.verbose)

        self.labels_, self.biases_, self.loss_curve_ = labels, biases, curve
        self.weights_ = np.divide(weights.reshape(labels.shape), scale, dtype=np.float32)
        self._derive()
        return self

    def to_csr(self) -> sp.csr_array:
        """The weights as a sparse matrix, (n_bits, D) float32 with ascending columns: margins are ``X W' - biases``."""
        check_is_fitted(self)
        indptr, columns = group_columns(self.labels_, self.n_bits_)
        order = np.argsort(self._bank.labels, kind="stable")
        return sp.csr_array((self._bank.weights[order], columns, indptr), shape=(self.n_bits_, self.n_features_in_))

    def _check_parameters(self) -> None:
        check_choice(self, "solver", self.solver, SOLVERS)
        self._check_shared_parameters(learnt=self.solver == "joint")
        check_positive(self, "noise", self.noise, zero=True)

    def _derive(self) -> None:
        """Set what follows from the learnt arrays."""
        self.n_bits_ = len(self.biases_)
        self.n_iter_ = max(0, len(self.loss_curve_) - 1)
        self.group_sizes_ = np.bincount(self.labels_.ravel(), minlength=self.n_bits_)
        self._bank = Bank(self.labels_.T.ravel().view(np.uint32), self.weights_.T.ravel(), self.biases_)

    def _check_loaded(self) -> None:
        shapes = {name: getattr(self, name).shape for name in self._saved_arrays}
        dimensions = [len(shapes[name]) for name in ("labels_", "biases_")]
        if dimensions not in ([1, 1], [2, 1]) or shapes["weights_"] != shapes["labels_"]:
            raise ModelFileError(f"arrays do not fit each other: {shapes}")
        kinds = [str(array.dtype) for array in (self.labels_, self.weights_, self.biases_)]
        if kinds != ["int32", "float32", "float32"]:
            raise ModelFileError(f"arrays have the wrong types: {', '.join(kinds)}")
        n_features, n_bits = shapes["labels_"][-1], len(self.biases_)
        if self.labels_.size == 0 or self.labels_.min() < 0 or self.labels_.max() >= n_bits:
            raise ModelFileError("labels point to groups that do not exist")
        self.n_features_in_ = n_features
        self._derive()


def _sample(curve: NDArray[np.float64]) -> str:
    """Write a curve as a few of its values."""
    steps = sorted({round(t) for t in np.linspace(0, len(curve) - 1, 8)})
    return ", ".join(f"{curve[t]:.4f} (step {t})" for t in steps)
