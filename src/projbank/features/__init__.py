"""From pictures and videos to long vectors: local descriptors, then Fisher vectors or VLAD."""

from projbank.features.codebooks import VLAD, FisherVector
from projbank.features.extractor import FeatureExtractor
from projbank.features.sift import SIFT, DenseSIFT
from projbank.features.trajectories import DenseTrajectories

__all__ = ["SIFT", "VLAD", "DenseSIFT", "DenseTrajectories", "FeatureExtractor", "FisherVector"]
