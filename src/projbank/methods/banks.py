"""The banks of the registry: the estimators of the library with other defaults."""

from __future__ import annotations

import inspect
from typing import Any

from projbank.bank import ProjectionBank
from projbank.base import ModelCoder
from projbank.kernel_bank import KernelProjectionBank


def preset(name: str, base: type[ModelCoder], doc: str, **defaults: Any) -> Any:
    """Make a subclass of an estimator whose parameters have other defaults."""
    inherited = inspect.signature(base.__init__)
    parameters = [p.replace(default=defaults.get(p.name, p.default)) for p in inherited.parameters.values()]
    signature = inherited.replace(parameters=parameters)

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        bound = signature.bind(self, *args, **kwargs)
        bound.apply_defaults()
        base.__init__(*bound.args, **bound.kwargs)

    __init__.__signature__ = signature  # type: ignore[attr-defined]
    about = f"{doc}\n\nParameters and attributes as those of `{base.__name__}`."
    return type(name, (base,), {"__init__": __init__, "__doc__": about, "__module__": __name__})


MixedBank = preset("MixedBank", ProjectionBank, "The headed bank: a small head on a bank's sums.", solver="mixed")
DistanceBank = preset("DistanceBank", ProjectionBank, "Codes for the nearest of the floats.", preserve="distances")
JointBank = preset("JointBank", ProjectionBank, "The joint bank: all weights learnt together.", solver="joint")
BPB = preset("BPB", ProjectionBank, "The paper's bank: k-means groups and max-margin weights.", solver="paper")
EqualBPB = preset(
    "EqualBPB", ProjectionBank, "BPB on k-means groups of equal size.", solver="paper", grouping="kmeans-equal"
)
RandomBPB = preset("RandomBPB", ProjectionBank, "RandST+BPB: BPB on random groups.", solver="paper", grouping="random")
PolynomialKBPB = preset("PolynomialKBPB", KernelProjectionBank, "KBPB with the polynomial kernel.", kernel="poly")
RadialKBPB = preset("RadialKBPB", KernelProjectionBank, "KBPB with the RBF kernel.", kernel="rbf")
EqualKBPB = preset(
    "EqualKBPB",
    KernelProjectionBank,
    "KBPB with the RBF kernel on k-means groups of equal size.",
    kernel="rbf",
    grouping="kmeans-equal",
)
