"""`projbank recode` as a user runs it."""

import numpy as np

from projbank import ProjectionBank


def test_codes_and_index(tmp_path, monkeypatch, projbank):
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).standard_normal((60, 96), np.float32)
    np.save("x.npy", X)
    for seed, name in enumerate(("old", "new")):
        ProjectionBank(21, solver="random", random_state=seed).fit(X).save(f"{name}.safetensors")
    assert projbank("encode", "old.safetensors", "x.npy", "-o", "c.npy")[0] == 0
    assert projbank("index", "c.npy", "--bits", "21", "-o", "i.pbi")[0] == 0
    identity = ProjectionBank(21, solver="random", random_state=1).fit(X).identity()
    for name in ("c.npy", "i.pbi"):
        code, out, _ = projbank("recode", "new.safetensors", "x.npy", name)
        assert (code, out) == (0, f"{name}: 60 codes of 21 bits by {identity}\n")
    assert projbank("encode", "new.safetensors", "x.npy", "-o", "again.npy")[0] == 0
    assert (tmp_path / "again.npy").read_bytes() == (tmp_path / "c.npy").read_bytes()
    code, _, err = projbank("recode", "new.safetensors", "x.npy", "x.npy")
    assert code == 2
    assert err.count("\n") == 1


def test_a_store(tmp_path, monkeypatch, projbank):
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).standard_normal((40, 96), np.float32)
    np.save("x.npy", X)
    for seed, name in enumerate(("old", "new")):
        ProjectionBank(24, solver="random", random_state=seed).fit(X).save(f"{name}.safetensors")
        assert projbank("encode", f"{name}.safetensors", "x.npy", "-o", f"{name}.npy")[0] == 0
    assert projbank("store", "faiss", "old.npy", "--to", "s")[0] == 0
    code, out, _ = projbank("recode", "new.safetensors", "x.npy", "--store", "faiss", "--to", "s")
    assert (code, out.split(" by ")[0]) == (0, "s: 40 codes of 24 bits")
    code, out, _ = projbank("store", "faiss", "--to", "s", "--search", "new.npy", "-k", "1", "--format", "csv")
    assert [line.split(",")[-1] for line in out.splitlines()[1:]] == ["0"] * 40
    assert "give one of them" in projbank("recode", "new.safetensors", "x.npy")[2]
