"""Rows of a torch tensor of any type of float, which torch itself converts block by block."""

from __future__ import annotations

from typing import Any

from projbank.rows.chunked import check_shape
from projbank.rows.source import ALL, ArrayRows, Floats, RowSource, as_floats


class TensorRows(RowSource):
    """Rows of a tensor of a type that NumPy has not (bfloat16, float8), or of one on another device."""

    def __init__(self, tensor: Any) -> None:
        self.shape = check_shape(tuple(tensor.shape), "a torch tensor")
        self._tensor = tensor

    def block(self, start: int, stop: int, columns: slice = ALL) -> Floats:
        return as_floats(self._tensor[start:stop, columns].float().cpu().numpy())


def torch_rows(X: Any) -> RowSource:
    """Rows of a dense torch tensor."""
    if not hasattr(X, "layout"):
        raise TypeError(f"X must be a torch tensor or an array. Got {type(X).__name__} of torch.")
    if str(X.layout) != "torch.strided":
        raise TypeError(f"X must be a dense torch tensor, or scipy.sparse. Got a tensor of layout {X.layout}.")
    if X.is_complex():
        raise ValueError(f"X must hold real numbers. Got a torch tensor of {X.dtype}.")
    check_shape(tuple(X.shape), "a torch tensor")
    X = X.detach()
    names = ("float16", "float32", "float64", "uint8", "int8", "int16", "int32", "int64", "bool")
    if str(X.device) == "cpu" and str(X.dtype).removeprefix("torch.") in names:
        return ArrayRows(X.numpy())
    return TensorRows(X)
