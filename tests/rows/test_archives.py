"""`.npz` archives and sparse matrices: what NumPy and scipy saved is read; lies about sizes and indices are not."""

import io
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp

from projbank.integrity import DamageError
from projbank.rows.archives import is_sparse, open_npz
from projbank.rows.sparse import checked, sparse_rows

DENSE = np.random.default_rng(0).standard_normal((6, 5)).astype(np.float32)
SPARSE = DENSE * (DENSE > 0)


def only(names, shapes):
    assert set(names) == set(shapes)
    return None if is_sparse(names) else names[0]


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize(
    "array", [DENSE, np.asfortranarray(DENSE), DENSE.astype(">f8"), DENSE[:0], np.zeros((2, 70_000))]
)
def test_arrays_come_back(tmp_path, save, array):
    save(tmp_path / "a.npz", X=array)
    found = open_npz(tmp_path / "a.npz", only)
    np.testing.assert_array_equal(found, array)
    assert found.dtype == array.dtype


@pytest.mark.parametrize("kind", ["csr", "csc", "coo"])
@pytest.mark.parametrize("make", ["array", "matrix"])
def test_sparse_matrices_come_back(tmp_path, kind, make):
    sp.save_npz(tmp_path / "a.npz", getattr(sp, f"{kind}_{make}")(SPARSE))
    found = open_npz(tmp_path / "a.npz", only)
    assert isinstance(found, sp.csr_array)
    np.testing.assert_array_equal(found.toarray(), SPARSE)
    np.testing.assert_array_equal(checked(getattr(sp, f"{kind}_{make}")(SPARSE)).toarray(), SPARSE)


@pytest.mark.parametrize("kind", ["dia", "bsr", "lil", "dok"])
def test_other_kinds_are_converted_in_memory(kind):
    np.testing.assert_array_equal(checked(getattr(sp, f"{kind}_array")(SPARSE)).toarray(), SPARSE)


WRAPS = np.array([0, 2**62, -(2**62), 2**62, 0, 0, 4], np.int64)


@pytest.mark.parametrize(
    ("indices", "indptr", "shape"),
    [
        ([0, 1, 2, 5], [0, 1, 2, 3, 4, 4, 4], (6, 5)),
        ([0, 1, 2, -1], [0, 1, 2, 3, 4, 4, 4], (6, 5)),
        ([0, 1, 2, 2**31], [0, 1, 2, 3, 4, 4, 4], (6, 5)),
        ([0, 1, 2, 3], [0, 1, 2, 3, 4, 4, 9], (6, 5)),
        ([0, 1, 2, 3], [0, 3, 2, 3, 4, 4, 4], (6, 5)),
        ([0, 1, 2, 3], [1, 1, 2, 3, 4, 4, 4], (6, 5)),
        ([0, 1, 2, 3], [-1, 1, 2, 3, 4, 4, 4], (6, 5)),
        ([0, 1, 2, 3], WRAPS, (6, 5)),
        ([0, 1, 2, 3], [0, 1, 2, 3, 4, 4], (6, 5)),
        ([0, 1, 2], [0, 1, 2, 3, 4, 4, 4], (6, 5)),
        ([0.0, 1.0, 2.0, 3.0], [0, 1, 2, 3, 4, 4, 4], (6, 5)),
        ([[0, 1, 2, 3]], [0, 1, 2, 3, 4, 4, 4], (6, 5)),
        ([0, 1, 2, 3], [0, 1, 2, 3, 4, 4, 4], (6, -5)),
        ([0, 1, 2, 3], [0, 1, 2, 3, 4, 4, 4], (6,)),
    ],
)
def test_sparse_indices_that_lie(tmp_path, indices, indptr, shape):
    parts = {"data": np.ones(4, np.float32), "indices": np.array(indices), "indptr": np.array(indptr)}
    np.savez(tmp_path / "a.npz", format=np.array(b"csr"), shape=np.array(shape), **parts)
    with pytest.raises(DamageError, match=r"a\.npz: damaged .npz file"):
        open_npz(tmp_path / "a.npz", only)
    for kind in ("csr", "csc"):
        sides = shape if kind == "csr" else shape[::-1]
        with pytest.raises(ValueError, match=r"sparse matrix|2-D matrix"):
            sparse_rows(kind, *parts.values(), sides)


def test_a_matrix_of_ones_own_is_checked_too():
    for kind in ("csr", "csc"):
        matrix = getattr(sp, f"{kind}_array")(SPARSE)
        matrix.indices[-1] = 100
        with pytest.raises(
            ValueError, match=r"X: the sparse matrix has an index out of range: 100 is not in \[0, \d\)"
        ):
            checked(matrix)
    matrix = sp.coo_array(SPARSE)
    matrix.coords[1][0] = -3
    with pytest.raises(ValueError, match="-3 is not in"):
        checked(matrix)


def test_every_damaged_byte_of_an_archive_is_told_or_harmless(tmp_path):
    file = io.BytesIO()
    np.savez_compressed(file, X=DENSE)
    content = file.getvalue()
    for place in range(len(content)):
        (tmp_path / "a.npz").write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        try:
            found = open_npz(tmp_path / "a.npz", only)
        except DamageError:
            continue
        np.testing.assert_array_equal(found, DENSE)


def zipped(**members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return file.getvalue()


def header(shape, descr="<f4"):
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": descr, "fortran_order": False, "shape": shape})
    return file.getvalue()


def test_bombs_are_not_unpacked(tmp_path):
    archive = zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1)
    with archive, archive.open("X.npy", "w") as member:
        member.write(header((300, 250_000)))
        for _ in range(300):
            member.write(bytes(1_000_000))
    with pytest.raises(DamageError, match="would grow from"):
        open_npz(tmp_path / "a.npz", only)


@pytest.mark.parametrize(
    "content",
    [
        header((10_000, 10_000)) + bytes(100),
        header((2, 2)) + bytes(100),
        header((-2, -2)) + bytes(16),
        header((2**40, 2**40)) + bytes(16),
        header((2,), "|O") + bytes(16),
        b"nothing",
        b"",
    ],
)
def test_members_that_lie(tmp_path, content):
    (tmp_path / "a.npz").write_bytes(zipped(X=content))
    with pytest.raises(DamageError, match=r"a\.npz: damaged"):
        open_npz(tmp_path / "a.npz", only)
