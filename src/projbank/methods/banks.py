"""What the banks of the registry share: the counts of bytes that every method has."""

from __future__ import annotations

from typing import ClassVar

from sklearn.utils.validation import check_is_fitted

from projbank.bank import ProjectionBank


class BankMethod(ProjectionBank):
    """A projection bank with a method's interface."""

    distance: ClassVar[str] = "hamming"
    free_length: ClassVar[bool] = True

    @property
    def code_bytes(self) -> int:
        """Bytes of one code."""
        check_is_fitted(self)
        return self._n_features_out

    @property
    def model_bytes(self) -> int:
        """Bytes of what coding needs: labels, weights, biases."""
        check_is_fitted(self)
        return self.labels_.nbytes + self.weights_.nbytes + self.biases_.nbytes
