"""`projbank store`: every engine by its command, and its files."""

import json

import numpy as np
import pytest

from projbank.search import HammingIndex


@pytest.fixture
def data(tmp_path):
    codes = np.random.default_rng(0).integers(0, 256, (40, 5), dtype=np.uint8)
    np.save(tmp_path / "codes.npy", codes)
    np.save(tmp_path / "queries.npy", codes[:3])
    (tmp_path / "files.txt").write_text("".join(f"picture {i}.jpg\n" for i in range(40)))
    (tmp_path / "allowed.txt").write_text("picture 4.jpg\npicture 9.jpg\n")
    (tmp_path / "payload.jsonl").write_text("".join(json.dumps({"n": i}) + "\n" for i in range(40)))
    return tmp_path


def results(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


@pytest.mark.parametrize("engine", ["faiss", "lancedb", "sqlite"])
def test_add_and_search(projbank, data, engine):
    for module, needed in (("lancedb", "lancedb"), ("sqlite", "sqlite_vec")):
        if engine == module:
            pytest.importorskip(needed)
    to, codes = data / "store", np.load(data / "codes.npy")
    words = [data / "codes.npy", "--ids", data / "files.txt", "--payload", data / "payload.jsonl", "--bits", 37]
    assert projbank("store", engine, *words, "--to", to) == (0, f"{to}: 40 codes added, 40 in all\n", "")
    search = ["store", engine, "--to", to, "--search", data / "queries.npy", "-k", 5, "--format", "jsonl"]
    index = HammingIndex(codes, ids=[f"picture {i}.jpg" for i in range(40)], n_bits=37)
    found = results(projbank(*search)[1])
    assert [line["ids"] for line in found] == index.search(codes[:3], 5)[1].tolist()
    assert found[1]["payload"][0] == {"n": 1}
    few = results(projbank(*search, "--allow", data / "allowed.txt")[1])
    assert [sorted(line["ids"]) for line in few] == [["picture 4.jpg", "picture 9.jpg"]] * 3
    if engine == "faiss":
        assert projbank("store", engine, "--to", to, "--build", "ivf")[0] == 0
        assert projbank(*search)[0] == 0


def test_files_for_servers(projbank, data):
    out = data / "bulk.ndjson"
    words = [data / "codes.npy", "--ids", data / "files.txt", "--table", "pictures"]
    code, said, _ = projbank("store", "elasticsearch", *words, "--to", out)
    assert (code, said) == (0, f"{out}: 40 codes; {out}.schema.json: the schema\n")
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert lines[0] == {"index": {"_index": "pictures", "_id": "picture 0.jpg"}}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["faiss"], "Nothing to do"),
        (["milvus", "--build", "ivf"], "written as a file"),
        (["faiss", "codes.npy", "--ids", "payload.jsonl", "--payload", "files.txt"], "line 1 is no JSON"),
        (["faiss", "codes.npy", "--ids", "allowed.txt"], "shape"),
        (["faiss", "--search", "queries.npy"], "create it first"),
        (["faiss", "codes.npy", "--bits", "50"], "7 bytes per code"),
    ],
)
def test_errors_are_one_line(projbank, data, monkeypatch, words, message):
    monkeypatch.chdir(data)
    code, _, said = projbank("store", *words)
    assert (code, said.count("\n")) == (2, 1)
    assert message in said


def test_an_index_with_texts_grows_and_is_searched_with_conditions(projbank, data):
    index, codes = data / "index.pbi", np.load(data / "codes.npy")
    np.save(data / "more.npy", codes[:2] ^ 1)
    (data / "more.txt").write_text("a\nb\n")
    words = ["--ids", data / "files.txt", "--payload", data / "payload.jsonl", "-o", index]
    assert projbank("index", data / "codes.npy", *words)[0] == 0
    more = projbank("index", data / "more.npy", "--ids", data / "more.txt", "-o", index, "--append")
    assert more == (0, f"{index}: 42 codes of 40 bits\n", "")
    search = ["search", index, data / "queries.npy", "-k", 4, "--format", "jsonl"]
    near = results(projbank(*search, "--max-distance", 5)[1])
    assert [line["ids"] for line in near[:2]] == [["picture 0.jpg", "a"], ["picture 1.jpg", "b"]]
    assert near[0]["payload"] == [{"n": 0}, None]
    few = results(projbank(*search, "--allow", data / "allowed.txt")[1])
    assert {name for line in few for name in line["ids"]} == {"picture 4.jpg", "picture 9.jpg"}
    code, _, said = projbank("index", data / "more.npy", "-o", index, "--append", "--bits", 40)
    assert (code, "are for a new index" in said) == (2, True)


@pytest.mark.parametrize("engine", ["faiss", "lancedb", "sqlite"])
def test_what_cannot_be_added_leaves_no_new_store_and_the_old_one_as_it_was(projbank, data, engine):
    for module, needed in (("lancedb", "lancedb"), ("sqlite", "sqlite_vec")):
        if engine == module:
            pytest.importorskip(needed)
    np.save(data / "wrong.npy", np.ones((40, 2), np.float32))
    add = ["store", engine, data / "codes.npy", "--to", data / "store"]
    search = ["store", engine, "--to", data / "store", "--search", data / "queries.npy", "-k", 5]
    code, _, error = projbank(*add, "--ids", data / "wrong.npy")
    assert (code, error.count("\n")) == (2, 1)
    assert projbank(*search)[0] == 2  # there is no store
    assert projbank(*add)[0] == 0
    found = projbank(*search)
    assert projbank(*add, "--ids", data / "wrong.npy")[0] == 2
    assert projbank(*search) == found
