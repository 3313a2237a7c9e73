"""Model files: safetensors with JSON metadata {format, version, class, params, identity}, and a checksum."""

from __future__ import annotations

import importlib
import json
import os
import re
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from projbank.files import atomic_path
from projbank.integrity import DamageError, identity, input_file, warn_once
from projbank.tensorfile import parse_json, read_header, read_tensors, write_tensors

FORMAT = "projbank"
VERSION = 3
"""2: banks have the parameter `n_assign`, and soft ones 2-D labels and weights. 3: a checksum. Older files are read."""
CHECKED_VERSION = 3
"""Files from this version on have a checksum."""
_MODULES = {
    "bank": "ProjectionBank",
    "kernel_bank": "KernelProjectionBank",
    "features.codebooks": "FisherVector VLAD",
    "features.extractor": "FeatureExtractor",
    "features.net": "ConvMaps",
    "features.coder": "MediaCoder",
    "text.encoding": "FixedDimensionalEncoding",
    "methods.banks": "BPB DistanceBank EqualBPB EqualKBPB JointBank MixedBank PolynomialKBPB RadialKBPB RandomBPB",
    "methods.bpbc": "BPBC",
    "methods.cbe": "CBE RandomCBE",
    "methods.components": "PCA SpectralHashing",
    "methods.dense": "LSH RandomRotation",
    "methods.hadamard": "RaBitQ SRHT",
    "methods.itq": "DiscriminantITQ ITQ KMeansITQ",
    "methods.pka": "PKA",
    "methods.pq": "PQ RandomRotationPQ",
    "methods.signs": "AlphaZero Sign SignSelect",
}
CLASSES = {name: f"projbank.{module}" for module, names in _MODULES.items() for name in names.split()}
"""Every class that `load` knows, and the module it lives in."""
CODEBOOKS = ("FeatureExtractor", "FisherVector", "VLAD")
_REFERENCE = ("reference.codes", "reference.values", "reference.learnt")
"""Arrays that tell what codes of other vectors look like (`projbank.models.reference`); nothing depends on them."""
_COURSE = ("loss_curve_",)
"""Arrays that tell how learning went; nothing depends on them."""


class ModelFileError(DamageError):
    """A file is not a projbank model, is damaged, or was written by a newer version."""


class ModelFile:
    """Mixin of estimators that can be saved: parameters as JSON, what was learnt as tensors.

    `trained_on_`, where it is set, is the identity of the codebook that described the training vectors.
    """

    _saved_arrays: ClassVar[tuple[str, ...]]
    _identity_params: ClassVar[tuple[str, ...]] = ()
    """Parameters that a fitted estimator's output depends on beside its arrays."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to a safetensors file; an existing model is replaced in one step."""
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self)
        params, tensors = {}, {}
        for name, value in self.get_params(deep=False).items():  # type: ignore[attr-defined]
            if isinstance(value, np.ndarray):
                tensors[f"param.{name}"] = value
            else:
                params[name] = _as_json(type(self).__name__, name, value)
        for name in self._saved_arrays:
            tensors[name] = np.asarray(getattr(self, name))
        reference = getattr(self, "reference_", None)
        if reference is not None:
            tensors |= dict(zip(_REFERENCE, reference.arrays, strict=True))
        if hasattr(self, "feature_names_in_"):
            params["feature_names_in_"] = list(self.feature_names_in_)
        write_model(path, self, params, tensors)

    def identity(self) -> str:
        """Class and 16 digits over what was learnt; codes and vectors can be compared where it agrees."""
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self)
        arrays = {name: np.asarray(getattr(self, name)) for name in self._saved_arrays if name not in _COURSE}
        settings = {name: getattr(self, name) for name in self._identity_params}
        return identity(type(self).__name__, arrays, settings)

    @classmethod
    def _from_file(cls, params: dict[str, Any], arrays: dict[str, np.ndarray]) -> Self:
        """Rebuild the estimator; a subclass checks that the arrays fit each other in `_check_loaded`."""
        names = params.pop("feature_names_in_", None)
        for name in [name for name in arrays if name.startswith("param.")]:
            params[name.removeprefix("param.")] = arrays.pop(name)
        estimator = cls(**params)
        reference = {name: arrays.pop(name) for name in _REFERENCE if name in arrays}
        missing = set(estimator._saved_arrays) - set(arrays)
        if missing:
            raise ModelFileError(f"lacks the arrays {', '.join(sorted(missing))}")
        for name in estimator._saved_arrays:
            if arrays[name].dtype.kind == "f" and name not in _COURSE and not np.isfinite(arrays[name]).all():
                raise ModelFileError(f"{name} holds NaN or infinity")
            setattr(estimator, name, arrays[name])
        if names is not None:
            estimator.feature_names_in_ = np.asarray(names, dtype=object)  # type: ignore[attr-defined]
        estimator._check_loaded()
        if len(reference) == len(_REFERENCE):
            from projbank.models.reference import Reference

            codes, values, learnt = (reference[name] for name in _REFERENCE)
            known = Reference.of_arrays(codes, values, learnt, estimator.n_bits_)  # type: ignore[attr-defined]
            estimator.reference_ = known  # type: ignore[attr-defined]
        return estimator

    def _check_loaded(self) -> None:
        """Raise ModelFileError where the arrays do not fit each other; set what is derived from them."""


def write_model(path: str | os.PathLike[str], model: Any, params: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Write the file of a model: its class, parameters, arrays, identity and checksum."""
    metadata = {
        "format": FORMAT,
        "version": str(VERSION),
        "class": type(model).__name__,
        "params": json.dumps(params, sort_keys=True),
        "identity": model.identity(),
    }
    trained_on = getattr(model, "trained_on_", None)
    if trained_on is not None:
        metadata["trained_on"] = trained_on
    if getattr(model, "comparable_", ()):
        metadata["comparable"] = json.dumps({"identities": model.comparable_})
    with atomic_path(path, kind="codebook" if metadata["class"] in CODEBOOKS else "model") as temporary:
        write_tensors(temporary, arrays, metadata)


def read_metadata(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Metadata of a model file, checked: class, params (decoded), version, identity and trained_on (or None)."""
    path = input_file(path, "model file")
    try:
        return _decode(path, read_header(path).metadata)
    except ModelFileError:
        raise
    except DamageError as error:
        raise ModelFileError(str(error)) from error


def load(path: str | os.PathLike[str]) -> Any:
    """Read any estimator of the package from its model file.

    Raises
    ------
    ModelFileError
        If the file is damaged, is not one of projbank, or was written by a newer version.
    """
    path = input_file(path, "model file")
    read_metadata(path)  # says what another kind of file is, before its content is read
    try:
        header, arrays = read_tensors(path)
        metadata = _decode(path, header.metadata)
    except DamageError as error:
        raise ModelFileError(str(error)) from error
    cls = getattr(importlib.import_module(CLASSES[metadata["class"]]), metadata["class"])
    try:
        model = cls._from_file(metadata["params"], arrays)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, MemoryError) as error:
        raise ModelFileError(f"{path}: damaged model file ({error!s:.300}).") from error
    if metadata["trained_on"] is not None:
        model.trained_on_ = metadata["trained_on"]
    if metadata["comparable"]:
        model.comparable_ = metadata["comparable"]
    return model


def _decode(path: Path, metadata: dict[str, str]) -> dict[str, Any]:
    """Check the metadata of a header."""
    if metadata.get("format") == f"{FORMAT}-index":
        raise ModelFileError(f"{path}: an index, not a model; HammingIndex.load opens it.")
    if metadata.get("format") != FORMAT:
        raise ModelFileError(f"{path}: a safetensors file, but not one of projbank.")
    version = metadata.get("version", "")
    if not re.fullmatch("[0-9]{1,9}", version):
        raise ModelFileError(f"{path}: damaged metadata (version {version!r:.50}).")
    if int(version) > VERSION:
        raise ModelFileError(f"{path}: written by a newer projbank (file version {version}); upgrade to read it.")
    if metadata.get("class") not in CLASSES:
        raise ModelFileError(f"{path}: holds an unknown model class {metadata.get('class')!r:.100}.")
    if "checksum" not in metadata:
        if int(version) >= CHECKED_VERSION:
            raise ModelFileError(f"{path}: damaged metadata (no checksum).")
        warn_once("checksum", f"{path}: written by an earlier projbank, without a checksum; saved anew, it has one.")
    try:
        params = parse_json(path, metadata["params"].encode())
        comparable = parse_json(path, metadata.get("comparable", '{"identities": []}').encode())["identities"]
    except (KeyError, DamageError) as error:
        raise ModelFileError(f"{path}: damaged metadata ({error}).") from error
    return {
        "class": metadata["class"],
        "version": int(version),
        "params": params,
        "identity": metadata.get("identity"),
        "trained_on": metadata.get("trained_on"),
        "checked": "checksum" in metadata,
        "comparable": tuple(comparable),
    }


def _as_json(owner: str, name: str, value: Any) -> Any:
    if isinstance(value, np.random.RandomState | np.random.Generator):
        return None  # a stream of random numbers has no value to keep
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"The {name!r} parameter of {owner} can't be saved: {type(value).__name__} has no JSON form.")
