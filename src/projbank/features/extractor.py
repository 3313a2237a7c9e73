"""Descriptor and encoder in one estimator: a picture or video in, a long vector out; one file keeps both."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from projbank.features.codebooks import VLAD, FisherVector
from projbank.features.encoder import Encoder
from projbank.features.images import Descriptor, ListEstimator
from projbank.features.sift import SIFT, DenseSIFT
from projbank.features.trajectories import DenseTrajectories
from projbank.integrity import identity
from projbank.models.file import ModelFileError, write_model
from projbank.params import check_int

DESCRIPTORS: dict[str, type[Descriptor]] = {"dense-sift": DenseSIFT, "sift": SIFT, "trajectories": DenseTrajectories}
ENCODERS: dict[str, type[Encoder]] = {"fv": FisherVector, "vlad": VLAD}
_NOT_SETTINGS = ("n_jobs", "n_components", "n_clusters")
"""Parameters of the parts that have another name among the settings, or do not change a vector."""


@dataclass(eq=False, repr=False)
class FeatureExtractor(ListEstimator):
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

    descriptor: Descriptor | None = None
    encoder: Encoder | None = None
    _: KW_ONLY
    max_side: int | None = None
    colour: ClassVar[bool] = False
    """Whether pictures are given in colour."""

    @property
    def media(self) -> str:
        """What is described, "image" or "video"."""
        return "video" if isinstance(self.descriptor, DenseTrajectories) else "image"

    @property
    def n_dims_(self) -> int:
        """Dimensions of an encoded vector."""
        return self.encoder_.n_dims_

    def descriptors(self, picture: Any) -> NDArray[np.float32]:
        """Descriptors (n, k) of one image, or of one video given as its frames."""
        return self._descriptor().compute(picture)[1]

    def vector(self, picture: Any) -> NDArray[np.float32]:
        """Encode one image, or one video as its frames: (D,) float32, zeros where it has no descriptors."""
        check_is_fitted(self)
        descriptors = self.descriptors(picture)
        if not len(descriptors):
            return np.zeros(self.n_dims_, dtype=np.float32)
        return self.encoder_.transform([descriptors])[0]

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

    def check(self) -> None:
        """Raise for a parameter out of range, of this or of its parts."""
        if self.max_side is not None:
            check_int(self, "max_side", self.max_side, 1)
        self._descriptor().fit()
        self.unfitted_encoder().check_size()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write descriptor settings and codebook to one safetensors file; `projbank.load` reads it."""
        check_is_fitted(self)
        params: dict[str, Any] = {"max_side": self.max_side}
        parts = {"descriptor": self._descriptor(), "encoder": self.encoder_}
        for name, part in parts.items():
            values = {key: _plain(value) for key, value in part.get_params(deep=False).items()}
            params[name] = {"class": type(part).__name__, "params": values}
        write_model(path, self, params, self._arrays())

    @classmethod
    def _from_file(cls, params: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Self:
        """Rebuild from a model file's parts; `projbank.load` calls this."""
        descriptor = _described_class(params, "descriptor", DESCRIPTORS.values())
        encoder = _described_class(params, "encoder", ENCODERS.values())
        extractor = cls(descriptor(**params["descriptor"]["params"]), None, max_side=params.get("max_side"))
        extractor.encoder_ = encoder._from_file(dict(params["encoder"]["params"]), arrays)
        extractor.encoder = clone(extractor.encoder_)
        extractor.check()
        return extractor

    def settings(self) -> dict[str, Any]:
        """Everything that vectors depend on beside the codebook's numbers, by the names of `build_extractor`."""
        describe, encode = self._descriptor(), self.unfitted_encoder()
        found: dict[str, Any] = {
            "descriptor": _name(describe, DESCRIPTORS),
            "kind": _name(encode, ENCODERS),
            "max_side": self.max_side,
        }
        for name, value in {**describe.get_params(), **encode.get_params()}.items():
            if name in ("n_components", "n_clusters"):
                found["components"] = value
            elif name not in _NOT_SETTINGS:
                found[name] = _plain(value)
        return found

    def identity(self) -> str:
        """Class and 16 digits over settings and codebook; vectors can be compared where it agrees."""
        check_is_fitted(self)
        return identity(type(self).__name__, self._arrays(), self.settings())

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {name: np.asarray(getattr(self.encoder_, name)) for name in self.encoder_._saved_arrays}

    def unfitted_encoder(self) -> Encoder:
        """The encoder whose parameters are used."""
        return FisherVector() if self.encoder is None else self.encoder

    def _descriptor(self) -> Descriptor:
        return DenseSIFT() if self.descriptor is None else self.descriptor


def _described_class(params: dict[str, Any], part: str, classes: Iterable[type]) -> Any:
    """Class named in a model file for one part of the extractor, if it is one of `classes`."""
    described = params.get(part)
    known = {cls.__name__: cls for cls in classes}
    if not isinstance(described, dict) or described.get("class") not in known or "params" not in described:
        raise ModelFileError(f"names no known {part}")
    return known[described["class"]]


def _name(part: Any, table: dict[str, Any]) -> str:
    return next((name for name, cls in table.items() if type(part) is cls), type(part).__name__)


def _plain(value: Any) -> Any:
    """JSON form of a parameter."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.random.RandomState | np.random.Generator):
        return None
    return list(value) if isinstance(value, tuple) else value


def build_extractor(
    descriptor: str = "dense-sift",
    kind: str = "fv",
    components: int = 250,
    *,
    random_state: int = 0,
    max_side: int | None = None,
    **settings: Any,
) -> FeatureExtractor:
    """Build an extractor from the names and numbers of the command line.

    `settings` are parameters of the descriptor or of the encoder. Unless they say otherwise dense SIFT is not smoothed:
    unlike agreement with OpenCV, which `DenseSIFT` is set to, retrieval is better so.
    """
    for title, value, table in (("descriptor", descriptor, DESCRIPTORS), ("kind", kind, ENCODERS)):
        if value not in table:
            allowed = ", ".join(map(repr, table))
            raise ValueError(f"The {title!r} parameter must be one of {allowed}. Got {value!r} instead.")
    if descriptor == "dense-sift":
        settings = {"smoothing": 0.0} | settings
    describe, encode = DESCRIPTORS[descriptor](), ENCODERS[kind](components, random_state=random_state)
    parts = describe.get_params(), encode.get_params()
    for name in settings:
        if name in _NOT_SETTINGS or not any(name in params for params in parts):
            raise ValueError(f"Neither descriptor {descriptor!r} nor encoder {kind!r} has a parameter {name!r} to set.")
    for part, params in zip((describe, encode), parts, strict=True):
        part.set_params(**{name: value for name, value in settings.items() if name in params})
    return FeatureExtractor(describe, encode, max_side=max_side)


def photo_extractor(descriptor: str = "dense-sift", **settings: Any) -> FeatureExtractor:
    """Build an extractor as `build_extractor` does, but quick: small pictures, a wide grid, a short codebook.

    Fisher vectors of 16,384 dimensions find about as much in photos as those of 64,000, in a fifth of the time.
    """
    quick: dict[str, Any] = {"components": 128, "n_pca": 64}
    if descriptor == "dense-sift":
        quick |= {"step": 6, "max_side": 240}
    return build_extractor(descriptor, **quick | settings)
