"""Commands with --cluster give the files that they give without."""

import numpy as np
import pytest

from projbank import HammingIndex

pytest.importorskip("distributed")
cluster = pytest.importorskip("projbank.cluster")
N = 300


@pytest.fixture(scope="module")
def address():
    with cluster.cluster("local:2") as client:
        yield client.scheduler.address


def test_commands_on_a_cluster(projbank, address, tmp_path):
    vectors = tmp_path / "x.npy"
    np.save(vectors, np.random.default_rng(0).standard_normal((N, 120)).astype(np.float32))
    fit = ["fit", vectors, "-b", "16", "--solver", "mixed", "--set", "max_iter=3"]
    for name, words in (("one", []), ("many", ["--cluster", address])):
        bank, codes = tmp_path / f"{name}.safetensors", tmp_path / f"{name}.npy"
        for command in ([*fit, "-o", bank, *words], ["encode", bank, vectors, "-o", codes, *words]):
            code, _, said = projbank(*command)
            assert code == 0, said
    assert (tmp_path / "one.safetensors").read_bytes() == (tmp_path / "many.safetensors").read_bytes()
    assert (tmp_path / "one.npy").read_bytes() == (tmp_path / "many.npy").read_bytes()
    folder = tmp_path / "shards"
    folder.mkdir()
    codes = np.load(tmp_path / "one.npy")
    for i, part in enumerate(np.array_split(np.arange(N), 2)):
        HammingIndex(codes[part], ids=part, n_bits=16).save(folder / f"{i}.pbi")
    np.save(tmp_path / "queries.npy", codes[:5])
    said = [
        projbank("search", folder, tmp_path / "queries.npy", "-k", "9", "--format", "csv", *words)
        for words in ([], ["--cluster", address])
    ]
    assert said[0][0] == 0
    assert said[0] == said[1]
