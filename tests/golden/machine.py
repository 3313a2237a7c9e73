"""What the last digits of floating-point sums depend on: the processor's BLAS kernels and the libraries' versions."""

import importlib.metadata

import numpy as np
import scipy.linalg  # noqa: F401 - its BLAS must be loaded before it is looked for
from llvmlite.binding import get_host_cpu_name
from threadpoolctl import threadpool_info

LIBRARIES = ("faiss-cpu", "numba", "numpy", "scipy", "scikit-learn")


def machine():
    """A line that is equal where the same bits can be expected."""
    np.eye(2) @ np.eye(2)
    blas = sorted({f"{pool['internal_api']} {pool.get('architecture')}" for pool in threadpool_info()})
    versions = [f"{name} {importlib.metadata.version(name)}" for name in LIBRARIES]
    return "; ".join([get_host_cpu_name(), *blas, *versions])
