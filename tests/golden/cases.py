"""Codes of every solver, grouping, kernel and compared method on small generated vectors, as hashes."""

import hashlib
import warnings

import numpy as np
import scipy.sparse as sp

from projbank import KernelProjectionBank, ProjectionBank
from projbank.methods import METHODS

N_BITS = 40


def vectors(n=230, n_features=300, seed=0):
    """Vectors of a few clusters near a space of 20 dimensions, off centre."""
    rng = np.random.default_rng(seed)
    centers = rng.standard_normal((8, 20))
    X = (centers[rng.integers(8, size=n)] + 0.5 * rng.standard_normal((n, 20))) @ rng.standard_normal((20, n_features))
    return (X + 0.5 * rng.standard_normal((n, n_features)) + rng.standard_normal(n_features)).astype(np.float32)


def counts(n=230, n_features=400, seed=1):
    """Sparse counts, nine of ten 0."""
    rng = np.random.default_rng(seed)
    rates = rng.gamma(0.2, 1.0, (6, n_features))[rng.integers(6, size=n)]
    return sp.csr_array(np.log1p(rng.poisson(0.5 * rates)).astype(np.float32))


def cases():
    """Name of a case to an unfitted estimator and the vectors it learns from."""
    X, few = vectors(), {"n_neighbors": 12, "max_iter": 6, "kmeans_iter": 4}
    labels = np.random.default_rng(2).permutation(np.arange(300) % N_BITS)
    groupings = {
        "paper": ["auto", "kmeans-equal", "random", "contiguous", "soft-kmeans", "soft-random"],
        "joint": ["auto", "soft-learnt", "random", "contiguous", "kmeans", "soft-random", "soft-kmeans"],
        "random": ["auto", "contiguous", "soft-random", "kmeans"],
    }
    found = {}
    for solver, names in groupings.items():
        for name in names:
            found[f"bank {solver} {name}"] = ProjectionBank(N_BITS, solver=solver, grouping=name, **few), X
    found["bank paper labels"] = ProjectionBank(N_BITS, solver="paper", grouping=labels, **few), X
    found["bank joint labels"] = ProjectionBank(N_BITS, solver="joint", grouping=labels, **few), X
    found["bank joint sparse"] = ProjectionBank(N_BITS, solver="joint", **few), counts()
    found["bank paper sparse"] = ProjectionBank(N_BITS, solver="paper", **few), counts()
    found["bank joint standardize"] = ProjectionBank(N_BITS, solver="joint", standardize=True, **few), X
    found["bank paper standardize"] = ProjectionBank(N_BITS, solver="paper", standardize=True, **few), X
    found["bank paper init random"] = ProjectionBank(N_BITS, solver="paper", init="random", **few), X
    found["bank paper init equal"] = ProjectionBank(N_BITS, solver="paper", init="equal", **few), X
    found["bank distances nested"] = ProjectionBank(300, preserve="distances"), X
    found["bank distances two rotations"] = ProjectionBank(1100, preserve="distances"), X
    for kernel in ("rbf", "poly", "linear"):
        found[f"kernel {kernel}"] = KernelProjectionBank(N_BITS, kernel=kernel, n_basis=60, **few), X
        reduced = KernelProjectionBank(N_BITS, kernel=kernel, n_basis=60, n_landmarks=12, **few)
        found[f"kernel {kernel} landmarks"] = reduced, X
    found["kernel rbf pairwise"] = KernelProjectionBank(N_BITS, sigma="pairwise", n_basis=60, **few), X
    found["kernel rbf soft-kmeans"] = KernelProjectionBank(N_BITS, grouping="soft-kmeans", n_basis=60, **few), X
    found["kernel rbf random"] = KernelProjectionBank(N_BITS, grouping="random", n_basis=60, **few), X
    for name in METHODS:
        known = METHODS[name]().get_params()
        wanted = {"n_bits": N_BITS, "n_basis": 60} | few
        found[f"method {name}"] = METHODS[name](**{key: wanted[key] for key in wanted if key in known}), X
    return found


def digest(estimator, X, n_jobs):
    """Hash of the codes that an estimator gives the vectors it was fitted on, with so many threads."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        codes = estimator.set_params(n_jobs=n_jobs).fit(X).transform(X)
    return hashlib.blake2b(np.ascontiguousarray(codes).tobytes(), digest_size=12).hexdigest()
