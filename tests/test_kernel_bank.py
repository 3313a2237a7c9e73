import pickle
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel
from sklearn.utils.estimator_checks import parametrize_with_checks

from projbank import KernelProjectionBank, load
from projbank.bits import pack
from projbank.models.file import ModelFileError
from projbank.models.mercer import Groups
from tests.reference import kernel as reference

KERNELS = ("rbf", "poly", "linear", laplacian_kernel)


def data(n=60, n_features=90, seed=0):
    return np.random.default_rng(seed).standard_normal((n, n_features)).astype(np.float32)


def quick(n_bits=11, **params):
    return KernelProjectionBank(n_bits, **({"n_neighbors": 5, "max_iter": 3, "n_basis": 30} | params))


@parametrize_with_checks([KernelProjectionBank(max_iter=2), KernelProjectionBank(kernel="poly", max_iter=2)])
@pytest.mark.filterwarnings("ignore:n_(neighbors|basis)=.* is lowered")
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("n", "n_features", "n_bits"), [(2, 1, 1), (3, 7, 7), (40, 65, 7), (30, 1025, 64)])
def test_the_public_interface(kernel, n, n_features, n_bits):
    X = data(n, n_features)
    bank = quick(n_bits, kernel=kernel, n_neighbors=1, n_basis=min(n, 30)).fit(X)
    codes, margins = bank.transform(X), bank.decision_function(X)
    assert codes.shape == (n, (n_bits + 7) // 8)
    assert codes.dtype == np.uint8
    assert margins.dtype == np.float32
    np.testing.assert_array_equal(codes, pack(margins > 0))
    assert bank.basis_.shape == (min(n, 30), n_features)
    assert bank.coefficients_.shape == (n_bits, min(n, 30))
    np.testing.assert_array_equal(np.sort(bank.columns_), np.arange(n_features))
    assert bank.group_sizes_.min() >= 1
    out = np.empty_like(codes)
    bank.write(X, out)
    np.testing.assert_array_equal(out, codes)


@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear"])
def test_margins_agree_with_the_transcription(kernel):
    X = data(40, 30)
    bank = quick(4, kernel=kernel, n_basis=15, degree=2, max_iter=20).fit(X)
    margins = bank.decision_function(X)
    assert np.abs(bank.decision_function(bank.basis_).mean(axis=0)).max() < 1e-4 * np.abs(margins).max()
    for p in range(4):
        own = bank.columns_[bank.indptr_[p] : bank.indptr_[p + 1]]
        scale = float(bank.scales_[p])
        functions = {
            "rbf": lambda x, y, scale=scale: reference.rbf(x, y, scale),
            "poly": lambda x, y, scale=scale: reference.poly(x, y, 2, scale),
            "linear": reference.linear,
        }
        basis = bank.basis_[:, own].astype(float)
        a = bank.coefficients_[p].astype(float)
        expected = np.array([reference.prediction(a, basis, x, functions[kernel]) for x in X[:12, own].astype(float)])
        tolerance = 1e-4 * np.abs(margins[:, p]).max()
        np.testing.assert_allclose(margins[:12, p], expected, atol=tolerance)
        sure = np.abs(expected) > tolerance
        np.testing.assert_array_equal((margins[:12, p] > 0)[sure], (expected > 0)[sure])


def test_a_callable_gives_what_the_built_in_kernel_gives():
    X = data(50, 40)
    built_in = quick(6, sigma=4.0, max_iter=10).fit(X)
    given = quick(6, kernel=lambda A, B: rbf_kernel(A, B, gamma=1 / 16), max_iter=10).fit(X)
    np.testing.assert_allclose(given.loss_curve_, built_in.loss_curve_, atol=1e-4)
    margins = built_in.decision_function(X)
    np.testing.assert_allclose(given.decision_function(X), margins, atol=2e-3 * np.abs(margins).max())


def test_the_paper_s_polynomial_is_gamma_1():
    bank = quick(5, kernel="poly", gamma=1.0).fit(data())
    np.testing.assert_array_equal(bank.scales_, 1)
    tiny = quick(5, kernel="poly", gamma=1.0, max_iter=30).fit(1e-3 * data())  # values of k are all near 1
    margins = tiny.decision_function(1e-3 * data())
    assert np.isfinite(margins).all()
    assert (margins.std(axis=0) > 0).all()


def test_kinds_of_input_threads_and_blocks_give_the_same_bits(tmp_path):
    X = data(150, 90).astype(np.float16).astype(np.float32)
    np.save(tmp_path / "x.npy", X)
    expected = quick().fit(X)
    codes = expected.transform(X)
    kinds = {
        "float64": X.astype(np.float64),
        "fortran": np.asfortranarray(X),
        "strided": np.repeat(X, 2, axis=1)[:, ::2],
        "memmap": np.load(tmp_path / "x.npy", mmap_mode="r"),
        "csr": sp.csr_array(X),
    }
    for name, rows in kinds.items():
        bank = quick(n_jobs=len(name) % 3 + 1).fit(rows)
        np.testing.assert_array_equal(bank.coefficients_, expected.coefficients_, err_msg=name)
        np.testing.assert_array_equal(bank.transform(rows), codes, err_msg=name)
    for i in (0, 77, 149):
        np.testing.assert_array_equal(expected.transform(X[i : i + 1]), codes[i : i + 1])


def test_overlapping_groups_are_coded(tmp_path):
    """A column may serve several groups: coding and model files know groups only as lists of columns."""
    X = data(50, 20)
    bank = quick(4, grouping="contiguous").fit(X)
    groups = Groups(np.array([0, 12, 20, 21, 33]), np.r_[0:12, 5:13, 7, 8:20].astype(np.int32))
    bank.save(tmp_path / "bank.safetensors")
    tensors = load_file(tmp_path / "bank.safetensors") | {"indptr_": groups.indptr, "columns_": groups.columns}
    with safe_open(tmp_path / "bank.safetensors", "np") as file:
        old = {name: file.metadata()[name] for name in ("format", "class", "params")}
    save_file(tensors, tmp_path / "overlapping.safetensors", old | {"version": "2"})  # files of which had no checksum
    bank = load(tmp_path / "overlapping.safetensors")
    margins = bank.decision_function(X)
    for p in range(4):
        own = groups.columns[groups.own(p)]
        K = rbf_kernel(X[:, own], bank.basis_[:, own], gamma=float(bank.scales_[p]) ** -2)
        np.testing.assert_allclose(margins[:, p], K @ bank.coefficients_[p] - bank.biases_[p], atol=1e-3)
    bank.save(tmp_path / "bank.safetensors")
    np.testing.assert_array_equal(load(tmp_path / "bank.safetensors").decision_function(X), margins)


@pytest.mark.parametrize("n_landmarks", [None, 8])
@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear"])
def test_a_saved_bank_gives_the_same_bits(kernel, n_landmarks, tmp_path):
    X = data()
    bank = quick(kernel=kernel, grouping=np.arange(90) % 11, lam=0.5, n_landmarks=n_landmarks).fit(X)
    bank.save(tmp_path / "bank.safetensors")
    again = load(tmp_path / "bank.safetensors")
    assert type(again) is KernelProjectionBank
    np.testing.assert_array_equal(again.transform(X), bank.transform(X))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(bank)).transform(X), bank.transform(X))
    np.testing.assert_array_equal(clone(bank).fit(X).transform(X), bank.transform(X))
    size = (tmp_path / "bank.safetensors").stat().st_size
    arrays = bank.basis_.nbytes + bank.landmarks_.nbytes + bank.coefficients_.nbytes
    assert size < arrays + 5000  # the basis is there once
    assert (len(bank.basis_), len(bank.landmarks_)) == ((30, 0) if n_landmarks is None else (0, 8))


def test_a_bank_with_a_function_is_not_saved(tmp_path):
    bank = quick(kernel=laplacian_kernel).fit(data())
    with pytest.raises(TypeError, match="'kernel' parameter of KernelProjectionBank can't be saved: function"):
        bank.save(tmp_path / "bank.safetensors")
    assert not list(tmp_path.iterdir())
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(bank)).transform(data()), bank.transform(data()))


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("indptr_", np.zeros(12, np.int64)),
        ("columns_", np.full(90, 90, np.int32)),
        ("basis_", np.zeros((30, 89), np.float32)),
        ("coefficients_", np.zeros((11, 29), np.float32)),
        ("landmarks_", np.zeros((30, 89), np.float32)),
        ("scales_", np.zeros(11, np.float32)),
        ("means_", np.zeros(90, np.float64)),
    ],
)
def test_damaged_model_files_are_refused(name, array, tmp_path):
    path = tmp_path / "bank.safetensors"
    quick().fit(data()).save(path)
    with safe_open(path, framework="numpy") as file:
        metadata = file.metadata()
    save_file(load_file(path) | {name: array}, path, metadata)
    with pytest.raises(ModelFileError, match=r"bank\.safetensors"):
        load(path)


@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear"])
def test_degenerate_data_give_no_nan(kernel):
    zeros = np.zeros((6, 12), np.float32)
    halves = np.vstack([zeros[:3], zeros[3:] + 1])
    constant = data(20, 12)
    constant[:, :9] = 3.0
    twice = np.repeat(data(5, 12), 4, axis=0)  # every nearest neighbour is 0 away
    for X in (zeros, zeros + 5, halves, constant, twice, 1e10 * data(9, 12), 1e-20 * data(9, 12)):
        for n_landmarks in (None, 3):
            params = {"kernel": kernel, "n_neighbors": 1, "n_basis": len(X), "n_landmarks": n_landmarks}
            bank = quick(4, grouping="contiguous", **params).fit(X)
            for name in ("coefficients_", "biases_", "scales_", "landmarks_", "loss_curve_"):
                assert np.isfinite(getattr(bank, name)).all(), name
            assert (bank.scales_ > 0).all()
            assert np.isfinite(bank.decision_function(X)).all()


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"n_bits": 0}, "'n_bits' parameter of KernelProjectionBank must be an int in the range [1, inf). Got 0"),
        ({"n_bits": 91}, "at most the number of features, 90"),
        ({"kernel": "magic"}, "must be one of 'rbf', 'poly', 'linear'. Got 'magic'"),
        ({"n_basis": 1}, "'n_basis' parameter of KernelProjectionBank must be an int in the range [2, inf). Got 1"),
        ({"degree": 0}, "'degree' parameter of KernelProjectionBank must be an int in the range [1, 100]. Got 0"),
        ({"degree": 1.5}, "Got 1.5"),
        ({"gamma": 0}, "'gamma'"),
        ({"gamma": "auto"}, "Got 'auto'"),
        ({"sigma": 0.0}, "'sigma' parameter of KernelProjectionBank must be a float in the range (0.0, inf). Got 0.0"),
        ({"sigma": float("nan")}, "Got nan"),
        ({"sigma_neighbors": 0}, "'sigma_neighbors'"),
        ({"sigma_factor": -1}, "'sigma_factor'"),
        (
            {"n_landmarks": 0},
            "'n_landmarks' parameter of KernelProjectionBank must be an int in the range [1, inf). Got 0",
        ),
        ({"n_landmarks": 3, "kernel": laplacian_kernel}, "'n_landmarks'"),
        ({"landmark_width": 0}, "'landmark_width'"),
        ({"grouping": "magic"}, "Got 'magic'"),
        ({"n_neighbors": 0}, "'n_neighbors'"),
        ({"lam": 0}, "'lam'"),
        ({"tol": -1}, "'tol'"),
        ({"init": "magic"}, "'init'"),
        ({"n_jobs": 0}, "'n_jobs'"),
        ({"kernel": lambda A, B: np.ones(len(A))}, "must give an array of shape (30, 30)"),
        ({"kernel": lambda A, B: (A @ B.T).astype(complex)}, "must give real numbers. Got dtype complex128"),
        ({"kernel": lambda A, B: np.full((len(A), len(B)), np.nan)}, "Got NaN or infinity in group 0, at row 0"),
        ({"kernel": lambda A, B: 1e60 * np.ones((len(A), len(B)))}, "must give finite numbers"),
        ({"kernel": lambda A, B: -(A @ B.T)}, "must satisfy Mercer's condition"),
        ({"kernel": lambda A, B: A[:, :1] - B[:, :1].T}, "must be symmetric"),
    ],
)
def test_bad_parameters_and_kernels_are_named(params, words):
    with pytest.raises(ValueError, match=r".") as error:
        quick(**({"n_bits": 5} | params)).fit(data())
    assert words in str(error.value)


def test_bad_rows_are_named():
    bank = quick().fit(data())
    X = data()
    X[17, 5] = X[40, 2] = np.nan
    for call in (quick().fit, bank.transform, bank.decision_function, quick(kernel=laplacian_kernel).fit):
        with pytest.raises(ValueError, match=r"X contains NaN at row 17, column 5\."):
            call(X)
    with pytest.raises(ValueError, match="X has 89 features, but KernelProjectionBank is expecting 90"):
        bank.transform(data(5, 89))
    with pytest.raises(NotFittedError):
        quick().transform(data())


def test_far_rows_have_finite_margins():
    bank = quick().fit(data())
    assert np.isfinite(bank.decision_function(np.full((9, 90), 3e38, np.float32))).all()


def test_a_basis_larger_than_the_data_is_lowered_with_a_warning():
    with pytest.warns(UserWarning, match="n_basis=1500 is lowered to 20: there are 20 training vectors"):
        bank = KernelProjectionBank(5, max_iter=2, n_neighbors=3).fit(data(20))
    assert bank.basis_.shape == (20, 90)


def test_silence_and_speech(capfd):
    quick().fit(data()).transform(data())
    assert capfd.readouterr() == ("", "")
    quick(verbose=1).fit(data())
    said = capfd.readouterr()
    assert said.out == ""
    assert "11 groups of" in said.err
    assert "loss: " in said.err


def test_memory_of_coding_stays_bounded(tmp_path):
    """A map of 80 MB, a basis of 8 MB: what grows with the rows is only their codes."""
    code = (
        "import resource, sys, numpy as np\n"
        "from projbank import KernelProjectionBank\n"
        "X = np.lib.format.open_memmap(sys.argv[1], 'w+', np.float32, (2500, 8192)); X[:] = 1; X[:256] += "
        "np.random.default_rng(0).standard_normal((256, 8192)); X.flush(); del X\n"
        "X = np.load(sys.argv[1], mmap_mode='r')\n"
        "bank = KernelProjectionBank(64, n_basis=256, n_neighbors=5, max_iter=1, grouping='random').fit(X[:256])\n"
        "bank.transform(X[:64])\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "codes = bank.transform(X)\n"
        "print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024, codes.shape)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "x.npy")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    megabytes, shape = done.stdout.split(maxsplit=1)
    assert float(megabytes) < 30
    assert shape.strip() == "(2500, 8)"
