import numpy as np
import pytest
import scipy.sparse as sp

from projbank import ProjectionBank
from projbank.rows.source import as_rows
from projbank.rows.views import LogCounts, RowRange, StackedRows


@pytest.fixture
def counts():
    return np.random.default_rng(0).poisson(0.7, (50, 30)).astype(np.float32)


@pytest.mark.parametrize("kind", [np.asarray, np.float64, np.int64, sp.csr_array])
def test_log_counts(kind, counts):
    counts[7] = 0
    expected = np.log1p(1e4 * counts.astype(np.float64) / np.maximum(counts.sum(axis=1, keepdims=True), 1))
    rows = LogCounts(kind(counts))
    np.testing.assert_allclose(rows.block(0, 50), expected, rtol=1e-6)
    np.testing.assert_array_equal(rows.block(3, 9, slice(5, 7)), rows.block(3, 9)[:, 5:7])
    np.testing.assert_array_equal(rows.read(np.array([2, 7, 40])), rows.block(0, 50)[[2, 7, 40]])
    np.testing.assert_allclose(LogCounts(counts, 100.0).block(0, 50).max(), np.log1p(expected_scaled(counts).max()))


def expected_scaled(counts):
    return 100 * counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)


def test_counts_below_zero_are_refused(counts):
    counts[31, 4] = -1
    with pytest.raises(ValueError, match="negative value at row 31"):
        ProjectionBank(n_bits=4, solver="random").fit(LogCounts(counts))
    with pytest.raises(ValueError, match="negative value at row 31"):
        LogCounts(counts).read(np.array([2, 31]))


def test_a_range_of_rows_names_rows_among_all(counts):
    rows = RowRange(RowRange(as_rows(counts), 10, 40), 5, 20)
    assert rows.shape == (15, 30)
    np.testing.assert_array_equal(rows.block(1, 4), counts[16:19])
    np.testing.assert_array_equal(rows.read(np.array([0, 14])), counts[[15, 29]])
    bank = ProjectionBank(n_bits=4, solver="random").fit(counts)
    np.testing.assert_array_equal(bank.transform(rows), bank.transform(counts)[15:30])
    counts[20, 3] = np.inf
    with pytest.raises(ValueError, match="at row 20, column 3"):
        bank.transform(rows)


def test_stacked_rows(counts):
    parts = [counts[:13], sp.csr_array(counts[13:20]), counts[20:].astype(np.float64)]
    rows = StackedRows(parts)
    np.testing.assert_array_equal(rows.block(0, 50), counts)
    np.testing.assert_array_equal(rows.block(5, 25, slice(2, 4)), counts[5:25, 2:4])
    np.testing.assert_array_equal(rows.read(np.array([0, 12, 13, 19, 20, 49])), counts[[0, 12, 13, 19, 20, 49]])
    np.testing.assert_array_equal(np.concatenate([block for _, block in rows.blocks(8 * 30 * 4)]), counts)
    with pytest.raises(ValueError, match="b: vectors have 29 dimensions, but those of a have 30"):
        StackedRows([counts, counts[:, 1:]], ["a", "b"])
