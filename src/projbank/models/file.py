"""Model files: safetensors with JSON metadata {format, version, class, params}, written whole or not at all."""

from __future__ import annotations

import importlib
import json
import os
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from projbank.files import atomic_path

FORMAT = "projbank"
VERSION = 2
"""2: banks have the parameter `n_assign`, and soft ones 2-D labels and weights. Files of version 1 are read."""
CLASSES = {
    "ProjectionBank": "projbank.bank",
    "KernelProjectionBank": "projbank.kernel_bank",
    "FisherVector": "projbank.features.fisher",
    "VLAD": "projbank.features.vlad",
    "FeatureExtractor": "projbank.features.extractor",
    "FixedDimensionalEncoding": "projbank.text.encoding",
    "PCA": "projbank.methods.pca",
    "RandomRotation": "projbank.methods.rr",
    "PQ": "projbank.methods.pq",
    "RandomRotationPQ": "projbank.methods.rr_pq",
    "PKA": "projbank.methods.pka",
    "Sign": "projbank.methods.sign",
    "AlphaZero": "projbank.methods.alpha0",
    "LSH": "projbank.methods.lsh",
    "SpectralHashing": "projbank.methods.sph",
    "BPBC": "projbank.methods.bpbc",
    "CBE": "projbank.methods.cbe",
    "RandomCBE": "projbank.methods.cbe_rand",
    "ITQ": "projbank.methods.itq",
    "KMeansITQ": "projbank.methods.kmeans_itq",
    "RandomBPB": "projbank.methods.randst_bpb",
    "BPB": "projbank.methods.bpb",
    "PolynomialKBPB": "projbank.methods.kbpb",
    "RadialKBPB": "projbank.methods.kbpb",
    "JointBank": "projbank.methods.joint",
    "SignSelect": "projbank.methods.sign_select",
    "SRHT": "projbank.methods.srht",
    "RaBitQ": "projbank.methods.rabitq",
}
"""Every class that `load` knows, and the module it lives in."""


class ModelFileError(ValueError):
    """A file is not a projbank model, is damaged, or was written by a newer version."""


class ModelFile:
    """Mixin of estimators that can be saved: parameters as JSON, what was learnt as tensors."""

    _saved_arrays: ClassVar[tuple[str, ...]]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to a safetensors file; an existing file is replaced in one step."""
        from safetensors.numpy import save_file
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self)
        params, tensors = {}, {}
        for name, value in self.get_params(deep=False).items():  # type: ignore[attr-defined]
            if isinstance(value, np.ndarray):
                tensors[f"param.{name}"] = np.ascontiguousarray(value)
            else:
                params[name] = _as_json(type(self).__name__, name, value)
        for name in self._saved_arrays:
            tensors[name] = np.ascontiguousarray(getattr(self, name))
        if hasattr(self, "feature_names_in_"):
            params["feature_names_in_"] = list(self.feature_names_in_)
        metadata = {
            "format": FORMAT,
            "version": str(VERSION),
            "class": type(self).__name__,
            "params": json.dumps(params),
        }
        with atomic_path(path) as temporary:
            save_file(tensors, temporary, metadata)

    @classmethod
    def _from_file(cls, params: dict[str, Any], arrays: dict[str, np.ndarray]) -> Self:
        """Rebuild the estimator; a subclass checks that the arrays fit each other in `_check_loaded`."""
        names = params.pop("feature_names_in_", None)
        for name in [name for name in arrays if name.startswith("param.")]:
            params[name.removeprefix("param.")] = arrays.pop(name)
        missing = set(cls._saved_arrays) - set(arrays)
        if missing:
            raise ModelFileError(f"lacks the arrays {', '.join(sorted(missing))}")
        estimator = cls(**params)
        for name in cls._saved_arrays:
            setattr(estimator, name, arrays[name])
        if names is not None:
            estimator.feature_names_in_ = np.asarray(names, dtype=object)  # type: ignore[attr-defined]
        estimator._check_loaded()
        return estimator

    def _check_loaded(self) -> None:
        """Raise ModelFileError where the arrays do not fit each other; set what is derived from them."""


def read_metadata(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Metadata of a model file, checked: class, params (decoded) and version."""
    from safetensors import SafetensorError, safe_open

    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"{path}: is a directory, not a model file.")
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file.")
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
    except SafetensorError as error:
        raise ModelFileError(f"{path}: not a model file, or damaged ({error}).") from error
    if metadata.get("format") == f"{FORMAT}-index":
        raise ModelFileError(f"{path}: an index, not a model; HammingIndex.load opens it.")
    if metadata.get("format") != FORMAT:
        raise ModelFileError(f"{path}: a safetensors file, but not one of projbank.")
    if not metadata.get("version", "").isdigit():
        raise ModelFileError(f"{path}: damaged metadata (version {metadata.get('version')!r}).")
    if int(metadata["version"]) > VERSION:
        raise ModelFileError(
            f"{path}: written by a newer projbank (file version {metadata['version']}); upgrade to read it."
        )
    if metadata.get("class") not in CLASSES:
        raise ModelFileError(f"{path}: holds an unknown model class {metadata.get('class')!r}.")
    try:
        params = json.loads(metadata["params"])
        if not isinstance(params, dict):
            raise TypeError("params is not a JSON object")
    except (KeyError, TypeError, ValueError) as error:
        raise ModelFileError(f"{path}: damaged metadata ({error}).") from error
    return {"class": metadata["class"], "version": int(metadata["version"]), "params": params}


def load(path: str | os.PathLike[str]) -> Any:
    """Read any estimator of the package from its model file.

    Raises
    ------
    ModelFileError
        If the file is damaged, is not one of projbank, or was written by a newer version.
    """
    from safetensors.numpy import load_file

    metadata = read_metadata(path)
    cls = getattr(importlib.import_module(CLASSES[metadata["class"]]), metadata["class"])
    try:
        return cls._from_file(metadata["params"], load_file(path))
    except (ModelFileError, TypeError) as error:
        raise ModelFileError(f"{Path(path)}: damaged model file ({error}).") from error


def _as_json(owner: str, name: str, value: Any) -> Any:
    if isinstance(value, np.random.RandomState | np.random.Generator):
        return None  # a stream of random numbers has no value to keep
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"The {name!r} parameter of {owner} can't be saved: {type(value).__name__} has no JSON form.")
