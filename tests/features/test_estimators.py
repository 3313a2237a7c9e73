"""Descriptors and encoders as scikit-learn estimators (whose own checks know only 2-D arrays, not lists of arrays)."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

from projbank.features import SIFT, VLAD, DenseSIFT, DenseTrajectories, FisherVector
from projbank.features.extractor import FeatureExtractor
from tests.features.media_files import picture

ESTIMATORS = [DenseSIFT(), SIFT(), DenseTrajectories(), FisherVector(), VLAD(), FeatureExtractor()]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda estimator: type(estimator).__name__)
def test_parameters_survive_clone_and_pickle(estimator):
    assert clone(estimator).get_params() == estimator.get_params()
    assert pickle.loads(pickle.dumps(estimator)).get_params() == estimator.get_params()
    assert type(estimator).__name__ in repr(estimator)


def test_a_pipeline_equals_the_extractor():
    images = [picture(i) for i in range(5)]
    describer, encoder = DenseSIFT((4,)), FisherVector(3, max_iter=3)
    piped = make_pipeline(clone(describer), clone(encoder)).fit(images).transform(images)
    np.testing.assert_array_equal(piped, FeatureExtractor(describer, encoder).fit_transform(images))


def test_a_fitted_encoder_survives_pickle():
    bags = [np.random.default_rng(i).normal(size=(40, 5)) for i in range(3)]
    for encoder in (FisherVector(2), VLAD(2)):
        fitted = clone(encoder).fit(bags)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).transform(bags), fitted.transform(bags))


@pytest.mark.parametrize("estimator", [FisherVector(), VLAD(), FeatureExtractor()])
def test_transform_before_fit_is_refused(estimator):
    with pytest.raises(NotFittedError):
        estimator.transform([np.zeros((30, 30))])


@pytest.mark.parametrize("seed", [0, 1, None])
def test_the_seed_decides(seed):
    bags = [np.random.default_rng(i).normal(size=(400, 5)) for i in range(3)]
    one, two = (FisherVector(6, max_descriptors=300, random_state=seed).fit(bags).means_ for _ in range(2))
    assert np.array_equal(one, two) == (seed is not None)
