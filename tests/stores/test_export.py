"""Files for servers: lines and schemas in the layout that each engine documents."""

import json

import numpy as np
import pytest

from projbank.stores import EXPORTS, export


def random_codes(n, width, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (n, width), dtype=np.uint8)


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def decode(engine, value):
    """Bytes of a code as the engine reads them."""
    if engine == "elasticsearch":
        return bytes.fromhex(value)
    return np.array(value).astype(np.int8 if engine == "opensearch" else np.uint8).tobytes()


@pytest.mark.parametrize("engine", EXPORTS)
@pytest.mark.parametrize("named", [False, True])
def test_what_is_written_is_what_the_engine_reads(tmp_path, engine, named):
    codes = random_codes(5000, 5)
    codes[:, -1] &= 0x1F
    ids = [f'ü"{i}' for i in range(5000)] if named else np.random.default_rng(1).permutation(10**6)[:5000]
    payload = [{"n": i, "t": 'a"b'} for i in range(5000)]
    target, schema = export(engine, tmp_path / "codes.out", codes, ids, payload, n_bits=37)
    rows = lines(target)
    if engine == "milvus":
        found, documents, payload = [row["id"] for row in rows], rows, payload
        assert [row["payload"] for row in rows] == payload
        assert found == list(ids)
    else:
        actions, documents = rows[::2], rows[1::2]
        assert [set(action) for action in actions] == [{"index"}] * 5000
        assert {action["index"]["_index"] for action in actions} == {"codes"}
        assert [action["index"]["_id"] for action in actions] == [str(i) for i in ids]
        assert [row["payload"]["value"] for row in documents] == payload
    assert [decode(engine, row["code"]) for row in documents] == [code.tobytes() for code in codes]
    assert "37" not in schema.read_text()  # whole bytes
    assert "40" in schema.read_text()


def test_schemas(tmp_path):
    codes = random_codes(3, 8)
    properties = {}
    for engine in ("elasticsearch", "opensearch"):
        whole = json.loads(export(engine, tmp_path / engine, codes)[1].read_text())
        properties[engine] = whole["mappings"]["properties"]["code"]
    assert properties["elasticsearch"] == {
        "type": "dense_vector",
        "element_type": "bit",
        "dims": 64,
        "index": True,
        "similarity": "l2_norm",
    }
    assert properties["opensearch"]["data_type"] == "binary"
    assert (properties["opensearch"]["dimension"], properties["opensearch"]["space_type"]) == (64, "hamming")
    fields = json.loads(export("milvus", tmp_path / "milvus", codes, list("abc"))[1].read_text())["schema"]["fields"]
    assert [field["dataType"] for field in fields] == ["VarChar", "BinaryVector", "JSON"]


def test_values_of_opensearch_are_signed_bytes(tmp_path):
    target, _ = export("opensearch", tmp_path / "x", np.array([[0, 127, 128, 255]], np.uint8))
    assert lines(target)[1]["code"] == [0, 127, -128, -1]


@pytest.mark.parametrize(
    ("engine", "width", "options", "error", "message"),
    [
        ("elasticsearch", 4097, {}, ValueError, "at most 32768 bits. Got 32776"),
        ("opensearch", 2001, {}, ValueError, "at most 16000 bits"),
        ("qdrant", 8, {}, ValueError, "'engine' parameter.*'qdrant'"),
        ("milvus", 8, {"ids": [1, 1]}, ValueError, "distinct"),
        ("milvus", 8, {"payload": [1]}, ValueError, "2 values"),
        ("milvus", 8, {"n_bits": 80}, ValueError, "10 bytes per code"),
    ],
)
def test_bad_exports_write_nothing(tmp_path, engine, width, options, error, message):
    with pytest.raises(error, match=message):
        export(engine, tmp_path / "x", random_codes(2, width), **options)
    assert not list(tmp_path.iterdir())


def test_no_file_of_another_kind_is_replaced(tmp_path):
    (tmp_path / "x.png").write_bytes(b"\x89PNG\r\n")
    with pytest.raises(FileExistsError, match="picture"):
        export("milvus", tmp_path / "x.png", random_codes(2, 8))
    first = export("milvus", tmp_path / "x.jsonl", random_codes(2, 8))[0].read_bytes()
    assert export("milvus", tmp_path / "x.jsonl", random_codes(2, 8))[0].read_bytes() == first
