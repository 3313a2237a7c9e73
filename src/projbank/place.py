"""Where learners and models stand; they are imported when they are needed."""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple


class Place(NamedTuple):
    """Where a learner and its models stand, as "module:class"; imported when they are needed."""

    learner: str
    model: str
    own_groupings: tuple[str, ...] = ()
    """Groupings that this learner knows beside those that all know."""

    @property
    def groupings(self) -> tuple[str, ...]:
        """Names that the parameter `grouping` may have; "soft..." are those of earlier versions."""
        return (
            "auto",
            "kmeans",
            "kmeans-equal",
            "random",
            "contiguous",
            "soft",
            "soft-kmeans",
            "soft-random",
            *self.own_groupings,
        )

    def learner_class(self) -> Any:
        """Import the class of the learner."""
        return _imported(self.learner)

    def model_class(self) -> Any:
        """Import the class of the models."""
        return _imported(self.model)


def _imported(place: str) -> Any:
    module, name = place.split(":")
    return getattr(importlib.import_module(module), name)
