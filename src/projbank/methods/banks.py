"""What the banks of the registry share: the counts of bytes that every method has."""

from __future__ import annotations

from typing import ClassVar

from sklearn.utils.validation import check_is_fitted

from projbank.bank import ProjectionBank
from projbank.base import BankCoder
from projbank.kernel_bank import KernelProjectionBank


class HammingMethod(BankCoder):
    """A bank with a method's interface."""

    distance: ClassVar[str] = "hamming"
    free_length: ClassVar[bool] = True

    @property
    def code_bytes(self) -> int:
        """Bytes of one code."""
        check_is_fitted(self)
        return self._n_features_out

    @property
    def model_bytes(self) -> int:
        """Bytes of what coding needs: all that a model file holds but the course of learning."""
        check_is_fitted(self)
        return sum(getattr(self, name).nbytes for name in self._saved_arrays if name != "loss_curve_")


class BankMethod(HammingMethod, ProjectionBank):
    """A projection bank with a method's interface."""


class KernelBankMethod(HammingMethod, KernelProjectionBank):
    """A kernel bank with a method's interface."""
