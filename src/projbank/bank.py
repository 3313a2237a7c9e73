"""ProjectionBank: the estimator. Learning stands in `projbank.learn`, coding in `projbank.models`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from projbank.base import INITS, ModelCoder
from projbank.learn.run import Place
from projbank.params import auto, check_choice, checks, not_negative, one_of, positive, whole

_SOLVERS = {
    "mixed": Place("projbank.learn.mixed:MixedLearner", "projbank.models.bank:HeadedBank"),
    "joint": Place("projbank.learn.joint:JointLearner", "projbank.models.bank:Bank", ("learnt", "soft-learnt")),
    "paper": Place("projbank.learn.paper:PaperLearner", "projbank.models.bank:Bank"),
    "random": Place("projbank.learn.random:RandomLearner", "projbank.models.bank:Bank"),
}
"""Name of a solver to where its learner and its models stand."""
_DISTANCES = Place("projbank.learn.distances:DistanceLearner", "projbank.models.dense:DenseHead")
PRESERVE = ("neighbourhoods", "distances")
"""What codes may be for."""


@dataclass(eq=False, repr=False)
class ProjectionBank(ModelCoder):
    """Binary codes of very long vectors in one pass.

    The D dimensions are split into groups, each with a weighted sum. In a plain bank ("joint", "paper", "random") bit p
    is 1 iff sum p is above its bias: D weights, D group labels and `n_bits` biases, and D multiply-adds for a code,
    whatever `n_bits` is. A headed bank ("mixed") has some thousand sums, which two small matrices turn into bits, so
    that each bit sees every dimension (docs/how-it-works.md).

    Parameters
    ----------
    n_bits : int or "auto"
        Bits per code; in a plain bank at most D, or `n_assign` * D. "auto": about D / 16, a multiple of 64 where D
        allows. The first 64, 128, ... bits of a code are a code by themselves (mixed solver, and distances).
    solver : {"mixed", "joint", "paper", "random"}
        How weights are learnt. "mixed": a head on the sums of a random bank, so that similarities of codes follow
        neighbourhoods of the data. "joint": a plain bank, all weights together, with the same aim. "paper": BPB of Liu,
        Yu and Shao (ICCV 2015), each bit for itself by the pair hinge. "random": random signs, to see what learning is
        worth.
    preserve : {"neighbourhoods", "distances"}
        What codes are for. "neighbourhoods": vectors of a kind get like codes, which helps to find what belongs
        together. "distances": codes find the vectors' own nearest neighbours, by principal components of the whole
        vector and bits that are chosen together; only `n_bits`, `rank`, `train_size` and `standardize` count, and
        coding costs D * rank (docs/distances.md).
    grouping : {"auto", "learnt", "kmeans", "kmeans-equal", "random", "contiguous"} or array of int
        Which dimensions share a bit, or a sum of a headed bank; an array gives each dimension's group, 0 to n_bits - 1,
        shape (D,), or its r groups, shape (r, D). "auto": "learnt" for the joint solver, k-means for the paper's, else
        random. "kmeans-equal": k-means with groups of equal size. "learnt": a dimension joins a bit that it can serve
        well, and may move to others while weights are learnt (joint solver; random groups where there are fewer than 64
        vectors to learn from). The names "soft", "soft-kmeans", "soft-random" and "soft-learnt" of earlier versions are
        the groupings with `n_assign` 2.
    n_assign : int or "auto"
        Bits that a dimension serves, each with a weight of its own; above `n_bits` - 1 it is lowered with a warning.
        "auto": 1; with the grouping "auto" and vectors of which 7 of 8 values are 0, as many as the zeros pay for.
    n_sums : int or "auto"
        Sums of a headed bank, at most D. "auto": 8,192, or D where that is less. Fewer make coding cheaper (mixed
        solver).
    rank : int or "auto"
        What the head brings the sums, or the vector, down to before it turns them into bits. "auto": 256 for
        neighbourhoods (mixed solver), `n_bits` or 1,024 for distances.
    n_neighbors : int or "auto"
        Neighbours of a training vector that count as similar; above N - 1 it is lowered with a warning. "auto": 30,
        or N / 20 where that is less, at least 5, for the mixed solver, which takes 15 where up to 10,000 rows have
        small clusters; 100 for the others.
    n_components : int or "all"
        Leading principal components of the training vectors among which neighbours are looked for, where each number
        is mostly noise, as counts of genes are: 50. "all": the vectors themselves (mixed solver).
    train_size : int or "auto"
        Rows to learn from, drawn at random where there are more. "auto": 20,000 (mixed solver, and distances).
    lam : float
        Weight of the pair loss against the regulariser (paper's solver).
    max_iter : int
        Iterations: steps of gradient descent ("paper"), or rounds of 8 mini-batches ("mixed" and "joint", which stop
        earlier when held-back vectors gain no more).
    noise : float or "auto"
        Deviation of the noise on relaxed bits, in those of their margins, against learning vectors by heart (mixed and
        joint solver; less below 256 bits). With less of it codes follow finer neighbourhoods. "auto": 0.5.
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
    labels_ : (D,) int32, or (r, D) int32 where a dimension serves r bits
        Group, or groups, of each dimension.
    weights_ : float32
        Weight of each dimension in its group or groups, shaped as `labels_`.
    centers_ : (n_sums,) float32
        Subtracted from the sums of a headed bank.
    inner_, outer_ : (n_sums, rank) and (rank, n_bits) float32
        The head: margins are (sums - centers) inner outer - biases. For distances `inner_` is (D, rank), `outer_` has
        a row more, and bits are chosen so that the columns of their values add up to a row's components
        (`projbank.models.dense`); `means_`, `factors_`, `near_`, `constants_` and `offsets_` belong to it.
    biases_ : (n_bits,) float32
        Thresholds (not for distances).
    query_biases_ : (n_bits,) float32
        Thresholds of queries (distances).
    group_sizes_ : (n_bits,) int64
        Dimensions of each group.
    loss_curve_ : (n_iter + 1,) float64
        Loss after each iteration: the mean over groups of L / (lam N^2), which is 1 at w = 0 ("paper"), or 1 minus the
        correlation of similarities plus imbalance ("joint"). Empty where nothing is learnt ("random").
    model_ : projbank.models.bank.Bank, projbank.models.bank.HeadedBank or projbank.models.dense.DenseHead
        What was learnt, as coding uses it.
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

    n_bits: int | str = "auto"
    _: KW_ONLY
    solver: str = "mixed"
    preserve: str = "neighbourhoods"
    grouping: str | ArrayLike = "auto"
    n_assign: int | str = "auto"
    n_sums: int | str = "auto"
    rank: int | str = "auto"
    n_neighbors: int | str = "auto"
    n_components: int | str = "all"
    train_size: int | str = "auto"
    lam: float = 1.0
    max_iter: int = 70
    noise: float | str = "auto"
    tol: float = 1e-6
    init: str = "leading"
    standardize: bool = False
    kmeans_iter: int = 20
    random_state: int | np.random.RandomState | None = 0
    n_jobs: int | None = None
    verbose: int = 0

    _checks = checks(
        preserve=one_of(*PRESERVE),
        n_sums=auto(whole(1)),
        rank=auto(whole(1)),
        n_neighbors=auto(whole(1)),
        n_components=auto(whole(1), "all"),
        train_size=auto(whole(2)),
        lam=positive,
        max_iter=whole(1),
        noise=auto(not_negative),
        tol=not_negative,
        init=one_of(*INITS),
        kmeans_iter=whole(1),
    )

    def to_csr(self) -> sp.csr_array:
        """The weights as a sparse matrix, (n_bits, D) float32 with ascending columns: margins are ``X W' - biases``."""
        check_is_fitted(self)
        from projbank.models.bank import Bank

        if not isinstance(self.model_, Bank):
            raise ValueError(f"A bank that holds a {type(self.model_).__name__} is no sparse matrix.")
        return self.model_.to_csr()

    @property
    def _place(self) -> Place:
        place = _SOLVERS[check_choice(self, "solver", self.solver, tuple(_SOLVERS))]
        return _DISTANCES if self.preserve == "distances" else place
