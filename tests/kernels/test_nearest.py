import numpy as np
import pytest
import scipy.sparse as sp

from projbank.kernels.nearest import dense_dots, sparse_dots


@pytest.mark.parametrize(("n", "D"), [(1, 1), (9, 7), (20, 130), (3, 65_537)])
@pytest.mark.parametrize("layout", [np.ascontiguousarray, np.asfortranarray, lambda X: np.repeat(X, 2, axis=0)[::2]])
def test_dots_are_those_of_numpy(n, D, layout):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, D)).astype(np.float32)
    X[rng.random(X.shape) < 0.6] = 0
    points = rng.standard_normal((4, D)).astype(np.float32)
    ids = rng.integers(0, n, (4, 5))
    expected = np.einsum("ip,ijp->ij", points.astype(np.float64), X[ids].astype(np.float64))
    out = np.empty(ids.shape)
    rows = layout(X)
    rows.flags.writeable = False
    dense_dots(rows, points, ids, out)
    np.testing.assert_allclose(out, expected, rtol=1e-9, atol=1e-9)
    S = sp.csr_array(X)
    for dtype in (np.int32, np.int64):
        out[:] = 0
        sparse_dots(S.data, S.indices.astype(dtype), S.indptr.astype(np.int64), points, ids, out)
        np.testing.assert_allclose(out, expected, rtol=1e-9, atol=1e-9)
