import json

import numpy as np
import pytest

from projbank import KernelProjectionBank


@pytest.mark.parametrize("n_landmarks", [None, 6])
def test_a_saved_kernel_bank_is_told_of_and_codes(projbank, tmp_path, n_landmarks):
    X = np.random.default_rng(0).standard_normal((40, 60)).astype(np.float32)
    np.save(tmp_path / "x.npy", X)
    params = {"n_basis": 20, "n_neighbors": 3, "max_iter": 2, "n_landmarks": n_landmarks}
    bank = KernelProjectionBank(13, **params).fit(X)
    bank.save(tmp_path / "bank.safetensors")
    code, out, _ = projbank("info", tmp_path / "bank.safetensors", "--json")
    assert code == 0
    facts = json.loads(out)
    assert (facts["class"], facts["dimensions"], facts["bits"]) == ("KernelProjectionBank", 60, 13)
    assert facts["parameters"]["kernel"] == "rbf"
    assert projbank("encode", tmp_path / "bank.safetensors", tmp_path / "x.npy", "-o", tmp_path / "codes.npy")[0] == 0
    np.testing.assert_array_equal(np.load(tmp_path / "codes.npy"), bank.transform(X))
    assert (
        projbank("encode", tmp_path / "bank.safetensors", tmp_path / "x.npy", "-o", tmp_path / "f.npy", "--margins")[0]
        == 0
    )
    np.testing.assert_array_equal(np.load(tmp_path / "f.npy"), bank.decision_function(X))
