"""Descriptor and encoder in one estimator: a picture or video in, a long vector out; one file keeps both."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from projbank.features.dense_sift import DenseSIFT
from projbank.features.encoder import Encoder
from projbank.features.fisher import FisherVector
from projbank.features.media import decode_image, video_frames
from projbank.features.readers import Item, Source
from projbank.features.sift import SIFT
from projbank.features.trajectories import DenseTrajectories
from projbank.features.vlad import VLAD
from projbank.files import atomic_path
from projbank.models.file import FORMAT, VERSION, ModelFileError
from projbank.params import check_int

DESCRIPTORS: dict[str, type] = {"dense-sift": DenseSIFT, "sift": SIFT, "trajectories": DenseTrajectories}
ENCODERS: dict[str, type[Encoder]] = {"fv": FisherVector, "vlad": VLAD}


class FeatureExtractor(TransformerMixin, BaseEstimator):
    """Describe pictures (or videos) and encode their descriptors.

    Parameters
    ----------
    descriptor : DenseSIFT, SIFT or DenseTrajectories; None is DenseSIFT()
    encoder : FisherVector or VLAD; None is FisherVector()
    max_side : int or None, default None
        Pictures and frames whose longer side is above this are made smaller when files are read.

    Attributes
    ----------
    encoder_ : the fitted encoder

    Examples
    --------
    >>> import numpy as np
    >>> images = np.random.default_rng(0).integers(0, 256, (6, 40, 40)).astype(np.uint8)
    >>> FeatureExtractor(DenseSIFT((4,)), FisherVector(2)).fit_transform(images).shape
    (6, 512)
    """

    def __init__(self, descriptor: Any = None, encoder: Encoder | None = None, *, max_side: int | None = None) -> None:
        self.descriptor = descriptor
        self.encoder = encoder
        self.max_side = max_side

    @property
    def media(self) -> str:
        """What is described, "image" or "video"."""
        return "video" if isinstance(self.descriptor, DenseTrajectories) else "image"

    @property
    def n_dims_(self) -> int:
        """Dimensions of an encoded vector."""
        return self.encoder_.n_dims_

    def fit(self, images: Iterable[Any], y: Any = None) -> Self:
        """Learn the codebook from images (or, for trajectories, videos as sequences of frames)."""
        return self.fit_descriptors(self._descriptor().transform(images))

    def fit_descriptors(self, descriptors: Any) -> Self:
        """Learn the codebook from descriptors that were computed before."""
        self.encoder_ = clone(self.unfitted_encoder()).fit(descriptors)
        return self

    def transform(self, images: Iterable[Any]) -> NDArray[np.float32]:
        """Encode images (or videos): (n, D) float32."""
        check_is_fitted(self)
        return self.encoder_.transform(self._descriptor().transform(images))

    def describe_file(self, source: Source, item: Item) -> NDArray[np.float32]:
        """Descriptors (n, k) of one file of a data set; MediaError where it can't be decoded."""
        if self.max_side is not None:
            check_int(self, "max_side", self.max_side, 1)
        descriptor = self._descriptor()
        if self.media == "image":
            return descriptor.compute(decode_image(source.read(item), item.file, self.max_side))[1]
        with source.local_file(item) as path:
            return descriptor.compute(video_frames(path, item.file, self.max_side))[1]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write descriptor settings and codebook to one safetensors file; `projbank.load` reads it."""
        from safetensors.numpy import save_file

        check_is_fitted(self)
        params = {"max_side": self.max_side}
        parts = {"descriptor": self._descriptor(), "encoder": self.encoder_}
        for name, part in parts.items():
            params[name] = {"class": type(part).__name__, "params": part.get_params(deep=False)}  # type: ignore[assignment]
        metadata = {
            "format": FORMAT,
            "version": str(VERSION),
            "class": type(self).__name__,
            "params": json.dumps(params, default=_plain),
        }
        tensors = {name: np.ascontiguousarray(getattr(self.encoder_, name)) for name in self.encoder_._saved_arrays}
        with atomic_path(path) as temporary:
            save_file(tensors, temporary, metadata)

    @classmethod
    def _from_file(cls, params: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Self:
        """Rebuild from a model file's parts; `projbank.load` calls this."""
        descriptor = _described_class(params, "descriptor", DESCRIPTORS.values())
        encoder = _described_class(params, "encoder", ENCODERS.values())
        extractor = cls(descriptor(**params["descriptor"]["params"]), None, max_side=params.get("max_side"))
        extractor.encoder_ = encoder._from_file(dict(params["encoder"]["params"]), arrays)
        extractor.encoder = clone(extractor.encoder_)
        return extractor

    def unfitted_encoder(self) -> Encoder:
        """The encoder whose parameters are used."""
        return FisherVector() if self.encoder is None else self.encoder

    def _descriptor(self) -> Any:
        return DenseSIFT() if self.descriptor is None else self.descriptor

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "encoder_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        return tags


def _described_class(params: dict[str, Any], part: str, classes: Iterable[type]) -> Any:
    """Class named in a model file for one part of the extractor, if it is one of `classes`."""
    described = params.get(part)
    known = {cls.__name__: cls for cls in classes}
    if not isinstance(described, dict) or described.get("class") not in known or "params" not in described:
        raise ModelFileError(f"names no known {part}")
    return known[described["class"]]


def _plain(value: Any) -> Any:
    """JSON form of NumPy numbers among the parameters."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a parameter of type {type(value).__name__} can't be saved.")


def build_extractor(
    descriptor: str = "dense-sift",
    kind: str = "fv",
    components: int = 250,
    *,
    pca: int | None = None,
    alpha: float = 0.5,
    step: int | None = None,
    bin_sizes: Sequence[int] | None = None,
    smoothing: float | None = None,
    max_side: int | None = None,
    random_state: int = 0,
) -> FeatureExtractor:
    """Build an extractor from the names and numbers of the command line.

    None takes the descriptor's own default, except that dense SIFT is not smoothed: unlike agreement with OpenCV,
    which `DenseSIFT` is set to, retrieval is better so.
    """
    for title, value, table in (("descriptor", descriptor, DESCRIPTORS), ("kind", kind, ENCODERS)):
        if value not in table:
            allowed = ", ".join(map(repr, table))
            raise ValueError(f"The {title!r} parameter must be one of {allowed}. Got {value!r} instead.")
    if descriptor == "dense-sift" and smoothing is None:
        smoothing = 0.0
    sizes = None if bin_sizes is None else tuple(bin_sizes)
    settings: dict[str, Any] = {"step": step, "bin_sizes": sizes, "smoothing": smoothing}
    given = {name: value for name, value in settings.items() if value is not None}
    unknown = set(given) - set(DESCRIPTORS[descriptor]().get_params())
    if unknown:
        raise ValueError(f"The descriptor {descriptor!r} has no parameter {', '.join(sorted(unknown))}.")
    encoder = ENCODERS[kind](components, n_pca=pca, alpha=alpha, random_state=random_state)
    return FeatureExtractor(DESCRIPTORS[descriptor](**given), encoder, max_side=max_side)


def extractor_settings(extractor: FeatureExtractor) -> dict[str, Any]:
    """Names and numbers by which `build_extractor` would build a fitted extractor; None where one does not apply."""
    encoder, descriptor = extractor.encoder_, extractor.descriptor.get_params()
    sizes = descriptor.get("bin_sizes")
    return {
        "descriptor": next(name for name, cls in DESCRIPTORS.items() if type(extractor.descriptor) is cls),
        "kind": next(name for name, cls in ENCODERS.items() if type(encoder) is cls),
        "components": encoder.get_params()["n_components" if isinstance(encoder, FisherVector) else "n_clusters"],
        "pca": encoder.n_pca,
        "alpha": encoder.alpha,
        "step": descriptor.get("step"),
        "bin_sizes": None if sizes is None else tuple(sizes),
        "smoothing": descriptor.get("smoothing"),
        "max_side": extractor.max_side,
    }
