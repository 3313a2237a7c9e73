"""Learning on from a bank, and codes of two versions that stay comparable."""

import numpy as np
import pytest

from projbank import HammingIndex, KernelProjectionBank, ProjectionBank, load
from projbank.integrity import IdentityError, check_made_by
from projbank.learn.renewal import LEAST_LOSS, blend
from projbank.metrics import precision_at_k


def clusters(n, centres, seed):
    """Rows about centres, and the centre of each."""
    rng = np.random.default_rng(seed)
    y = rng.integers(len(centres), size=n)
    return (centres[y] + rng.standard_normal((n, centres.shape[1]))).astype(np.float32), y


@pytest.fixture(scope="module")
def halves():
    """Rows of some clusters, and of others."""
    centres = 0.6 * np.random.default_rng(0).standard_normal((16, 128))
    return clusters(300, centres[:8], 1), clusters(300, centres[8:], 2), clusters(300, centres[8:], 3)


def parameters(solver):
    return {"n_bits": 48, "solver": solver, "n_neighbors": 20, "max_iter": 10, "n_jobs": 1}


def quality(bank, gallery, queries):
    codes, own = bank.transform(gallery[0]), bank.transform(queries[0])
    return precision_at_k(HammingIndex(codes, n_bits=48).search(own, 10)[1], gallery[1], queries[1], 10)


@pytest.mark.parametrize("solver", ["joint", "mixed"])
def test_a_renewed_bank_serves_new_data_as_one_learnt_anew(halves, solver):
    first, second, queries = halves
    old = ProjectionBank(**parameters(solver)).fit(first[0])
    new = ProjectionBank(**parameters(solver)).fit(second[0])
    renewed = ProjectionBank(**parameters(solver)).fit(second[0], start=old)
    before, after, anew = (quality(bank, second, queries) for bank in (old, renewed, new))
    assert after > before
    assert after - before > 0.7 * (anew - before)
    assert renewed.comparable_ == ()


@pytest.mark.parametrize("solver", ["joint", "mixed"])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_the_same_for_any_number_of_threads(halves, solver, n_jobs):
    first, second, _ = halves
    settings = parameters(solver) | {"max_iter": 2}
    old = ProjectionBank(**settings).fit(first[0])
    expected = ProjectionBank(**settings).fit(second[0], start=old)
    renewed = ProjectionBank(**settings | {"n_jobs": n_jobs}).fit(second[0], start=old)
    assert renewed.identity() == expected.identity()


@pytest.mark.parametrize("solver", ["joint", "mixed"])
def test_kept_codes_can_be_mixed(halves, solver, tmp_path):
    first, second, queries = halves
    old = ProjectionBank(**parameters(solver)).fit(first[0])
    renewed = ProjectionBank(**parameters(solver)).fit(second[0], start=old, keep_codes=True)
    kept = renewed.kept_
    assert 0 <= kept.share <= 1
    assert kept.recall["across"] >= kept.recall["old"] - LEAST_LOSS
    mixed = HammingIndex(old.transform(second[0]), n_bits=48).search(renewed.transform(queries[0]), 10)[1]
    assert precision_at_k(mixed, second[1], queries[1], 10) >= quality(old, second, queries) - 0.05
    assert renewed.comparable_ == (old.identity(),)
    renewed.save(tmp_path / "b.safetensors")
    assert load(tmp_path / "b.safetensors").comparable_ == (old.identity(),)
    again = ProjectionBank(**parameters(solver)).fit(first[0], start=renewed, keep_codes=True)
    assert again.comparable_ == (renewed.identity(), old.identity())
    check_made_by("codes", old.identity(), "bank", again.identity(), "code anew", again.comparable_)
    with pytest.raises(IdentityError):
        check_made_by("codes", "ProjectionBank:0", "bank", again.identity(), "code anew", again.comparable_)


def test_a_blend_goes_from_the_old_model_to_the_new_one(halves):
    first, second, _ = halves
    old = ProjectionBank(**parameters("mixed")).fit(first[0])
    new = ProjectionBank(**parameters("mixed")).fit(second[0], start=old)
    assert blend(old.model_, new.model_, 1.0) is new.model_
    half = blend(old.model_, new.model_, 0.5)
    np.testing.assert_allclose(half.biases, (old.biases_ + new.biases_) / 2, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(half.labels, old.labels_)


def test_many_bits_stay_the_mixtures_that_they_are(halves):
    first, second, _ = halves
    settings = {"n_bits": 700, "solver": "mixed", "n_neighbors": 20, "max_iter": 1, "n_jobs": 1}
    old = ProjectionBank(**settings).fit(first[0])
    new = ProjectionBank(**settings).fit(second[0], start=old)
    outer, old_outer = new.outer_, old.outer_
    mixture = np.linalg.lstsq(old_outer[:, :512], old_outer[:, 512:], rcond=None)[0]
    np.testing.assert_allclose(outer[:, 512:], outer[:, :512] @ mixture, atol=1e-3 * np.abs(outer).max())


def test_what_a_start_must_be(halves):
    X = halves[0][0]
    old = ProjectionBank(**parameters("joint")).fit(X)
    with pytest.raises(ValueError, match="keep_codes is for learning on"):
        ProjectionBank(solver="joint").fit(X, keep_codes=True)
    with pytest.raises(ValueError, match="n_bits=32"):
        ProjectionBank(32, solver="joint").fit(X, start=old)
    with pytest.raises(ValueError, match="100 dimensions"):
        ProjectionBank(48, solver="joint").fit(X[:, :100], start=old)
    with pytest.raises(ValueError, match="always learns anew"):
        ProjectionBank(48, solver="paper").fit(X, start=old)
    with pytest.raises(ValueError, match="always learns anew"):
        KernelProjectionBank(48, n_basis=20).fit(X, start=old)
    with pytest.raises(ValueError, match="holds a HeadedBank"):
        ProjectionBank(48, solver="mixed").fit(X, start=old)
    with pytest.raises(ValueError, match="must be a fitted bank"):
        ProjectionBank(48, solver="joint").fit(X, start=ProjectionBank(48, solver="joint"))
    assert ProjectionBank(solver="joint").fit(X, start=old).n_bits_ == 48
