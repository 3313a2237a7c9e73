"""The mercer bank: rows to margins or bits by kernels on short pieces of them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from projbank.kernels.pack import pack_above
from projbank.models.file import ModelFileError
from projbank.models.mercer import Basis, Floats, Form, Groups, KernelFunction, PairwiseRadial, Scaling, call_kernel
from projbank.models.model import Model
from projbank.rows.source import RowSource
from projbank.threads import split_rows

_BLOCK_ROWS = 128
"""Rows that are coded together: their columns are gathered once, and each group's basis serves all of them."""
_TILE = 32
"""Groups whose columns stand together when rows are coded, so that they fit in the second-level cache."""
ValuesOf = Callable[[Floats, Floats, int], Floats]
"""Kernel values between rows and basis samples of a group."""
_TYPES = {
    "indptr": "int64",
    "columns": "int32",
    "basis": "float32",
    "landmarks": "float32",
    "coefficients": "float32",
    "biases": "float32",
    "scales": "float32",
    "means": "float32",
    "loss_curve": "float64",
}


class _Memory(threading.local):
    """Working memory of each thread; that of another process starts empty."""

    def __reduce__(self) -> tuple[type[_Memory], tuple[()]]:
        return _Memory, ()


@dataclass(frozen=True)
class MercerBank(Model):
    """Bit p is 1 iff sum_i a_i k(x_i, x) - b is above 0, where k sees the dimensions of group p only.

    kernel : "rbf", "poly", "linear" or a function; degree : of the polynomial kernel
    indptr (d + 1,), columns (m,) : dimensions of each group
    basis (n, D) : basis samples, none where landmarks (n, m) stand for them, in the order of columns
    coefficients (d, n), biases (d,); scales (d,) : widths of the RBF kernel or gammas of a polynomial one, or (d, n) :
        mean distances of the basis samples to their neighbours where the width is one of each pair
    means (D,) : of the training data, from which RBF distances are measured
    """

    kernel: str | KernelFunction
    degree: int
    indptr: NDArray[np.int64]
    columns: NDArray[np.int32]
    basis: Floats
    landmarks: Floats
    coefficients: Floats
    biases: Floats
    scales: Floats
    means: Floats
    loss_curve: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    sigma_neighbors: int = 10
    sigma_factor: float = 8.0

    names = tuple(_TYPES)

    @classmethod
    def of_arrays(cls, arrays: dict[str, NDArray[Any]], params: dict[str, Any]) -> Self:
        """Check the arrays of a file and build the bank."""
        found = {name: str(array.dtype) for name, array in arrays.items()}
        if found != _TYPES:
            raise ModelFileError(f"arrays have the wrong types: {', '.join(found.values())}")
        shapes = {name: array.shape for name, array in arrays.items()}
        coefficients, basis, columns = arrays["coefficients"], arrays["basis"], arrays["columns"]
        if coefficients.ndim != 2 or basis.ndim != 2 or columns.ndim != 1:
            raise ModelFileError(f"arrays do not fit each other: {shapes}")
        (n_bits, n_basis), n_features = coefficients.shape, basis.shape[1]
        reduced = len(arrays["landmarks"]) > 0
        expected = {
            "basis": (0 if reduced else n_basis, n_features),
            "landmarks": (n_basis, len(columns)) if reduced else (0, 0),
            "biases": (n_bits,),
            "scales": (n_bits, n_basis) if arrays["scales"].ndim == 2 and not reduced else (n_bits,),
            "means": (n_features,),
        }
        if any(shapes[name] != shape for name, shape in expected.items()) or 0 in coefficients.shape:
            raise ModelFileError(f"arrays do not fit each other: {shapes}")
        if not Groups(arrays["indptr"], columns).are_valid(n_bits, n_features):
            raise ModelFileError("indptr and columns are no groups of dimensions")
        if not all(np.isfinite(array).all() for name, array in arrays.items() if _TYPES[name] == "float32"):
            raise ModelFileError("basis, coefficients or biases are not finite")
        pairwise = arrays["scales"].ndim == 2
        if pairwise and (params["kernel"] != "rbf" or not (arrays["scales"] >= 0).all()):
            raise ModelFileError("scales of samples are for the RBF kernel, and not below 0")
        if not pairwise and not (arrays["scales"] > 0).all():
            raise ModelFileError("scales are not all above 0")
        words = "kernel", "degree", "sigma_neighbors", "sigma_factor"
        given: dict[str, Any] = {word: params[word] for word in words if word in params}
        return cls(**given | arrays)

    @property
    def n_features(self) -> int:
        """D."""
        return len(self.means)

    @property
    def groups(self) -> Groups:
        """Columns of each group."""
        return Groups(self.indptr, self.columns)

    @property
    def group_sizes(self) -> NDArray[np.int64]:
        """Dimensions of each group."""
        return self.groups.sizes

    @property
    def form(self) -> Form:
        """Scaling of a built-in kernel, one with widths of pairs, or the user's function."""
        if self.scales.ndim == 2:
            return PairwiseRadial(self.sigma_neighbors, self.sigma_factor)
        if callable(self.kernel):
            return self.kernel
        if self.kernel == "rbf":
            return Scaling.radial(self.groups, self.scales, self.means)
        if self.kernel == "poly":
            return Scaling.polynomial(self.groups, self.scales, self.degree)
        return Scaling.linear(self.groups)

    def write(self, rows: RowSource, out: NDArray[Any], *, n_threads: int = 1, verbose: int = 0) -> None:
        """Write codes (`out` of uint8) or margins (float32) of rows, 128 at a time, so memory does not grow."""
        n_rows = rows.shape[0]
        zeros = np.zeros(self.n_bits, np.float32)
        rows_per_block = min(_BLOCK_ROWS, max(4, -(-n_rows // n_threads)))
        memory = _Memory()  # new memory for every block would cost as much as coding with few landmarks

        def code(block: Floats, part: NDArray[Any]) -> bool:
            if not hasattr(memory, "columns"):
                memory.columns = np.empty((min(rows_per_block, n_rows), len(self.columns)), np.float32)
                memory.margins = np.empty((min(rows_per_block, n_rows), self.n_bits), np.float32)
            margins = memory.margins[: len(block)]
            if not self._coder.margins(block, memory.columns[: len(block)], margins):
                return False
            if part.dtype == np.uint8:
                pack_above(margins, zeros, part)
            else:
                part[:] = margins
            return True

        rows.write(code, out, split_rows(n_rows, rows_per_block), n_threads=n_threads, verbose=verbose)

    @cached_property
    def _coder(self) -> _ScaledCoder | _FunctionCoder:
        values = self.landmarks if len(self.landmarks) else self.basis[:, self.columns]
        form = self.form
        if isinstance(form, Scaling):
            return _ScaledCoder(self.groups, values, self.coefficients, self.biases, form)
        found = self._pairwise if isinstance(form, PairwiseRadial) else partial(call_kernel, form)
        return _FunctionCoder(self.groups, values, self.coefficients, self.biases, found)

    def _pairwise(self, left: Floats, right: Floats, p: int) -> Floats:
        """Kernel values of group p, with widths of pairs."""
        form = PairwiseRadial(self.sigma_neighbors, self.sigma_factor)
        return form.values(left, right, np.ascontiguousarray(self.scales[p]))


class _ScaledCoder:
    """Margins by the compiled kernels."""

    def __init__(self, groups: Groups, values: Floats, coefficients: Floats, biases: Floats, scaling: Scaling) -> None:
        self._basis = Basis(groups, scaling, values)
        self._coefficients = self._basis.padded(coefficients)
        self._biases = biases

    def margins(self, rows: Floats, columns: Floats, out: Floats) -> bool:
        """Write margins of a block; False where its columns have a NaN or infinity."""
        if not self._basis.scaling.gather(rows, self._basis.groups, columns, tile=_TILE):
            return False
        self._basis.margins(columns, self._coefficients, self._biases, out, tile=_TILE)
        return True


class _FunctionCoder:
    """Margins group by group, by a kernel function that the user gave or by one with widths of pairs."""

    def __init__(self, groups: Groups, values: Floats, coefficients: Floats, biases: Floats, kernel: ValuesOf) -> None:
        self._groups, self._values, self._kernel = groups, values, kernel
        self._coefficients, self._biases = coefficients, biases

    def margins(self, rows: Floats, columns: Floats, out: Floats) -> bool:
        """Write margins of a block; False where it has a NaN or infinity."""
        if not np.isfinite(rows).all():
            return False
        np.take(rows, self._groups.columns, axis=1, out=columns)
        for p in range(len(self._groups)):
            own = self._groups.own(p)
            left = np.ascontiguousarray(columns[:, own])
            K = self._kernel(left, np.ascontiguousarray(self._values[:, own]), p)
            sums = np.einsum("ij,j->i", K, self._coefficients[p], dtype=np.float64)  # row by row, in any block
            out[:, p] = sums - self._biases[p]
        return True
