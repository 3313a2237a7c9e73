"""From pictures and videos to long vectors: local descriptors, then Fisher vectors or VLAD."""

from projbank.features.dense_sift import DenseSIFT
from projbank.features.extractor import FeatureExtractor
from projbank.features.fisher import FisherVector
from projbank.features.sift import SIFT
from projbank.features.trajectories import DenseTrajectories
from projbank.features.vlad import VLAD

__all__ = ["SIFT", "VLAD", "DenseSIFT", "DenseTrajectories", "FeatureExtractor", "FisherVector"]
