"""Very long vectors to medium-length binary codes in one pass, and what was lost, measured."""

from projbank.bank import ProjectionBank
from projbank.kernel_bank import KernelProjectionBank
from projbank.models.file import ModelFileError, load
from projbank.search import HammingIndex

__version__ = "0.1.0"
__all__ = ["HammingIndex", "KernelProjectionBank", "ModelFileError", "ProjectionBank", "load"]
