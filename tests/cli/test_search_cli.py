"""`projbank index` and `projbank search` as a user runs them."""

import csv
import io
import json
import sys

import numpy as np
import pytest

from projbank import ProjectionBank
from projbank.cli import main
from projbank.search import HammingIndex


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Vectors, a bank, codes and their index, as files."""
    folder = tmp_path_factory.mktemp("search")
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((120, 64)).astype(np.float32)
    queries = vectors[:9] + 0.3 * rng.standard_normal((9, 64)).astype(np.float32)
    bank = ProjectionBank(20, solver="paper", grouping="random", n_neighbors=5, max_iter=3).fit(vectors)
    bank.save(folder / "bank.safetensors")
    for name, array in {
        "vectors": vectors,
        "queries": queries,
        "codes": bank.transform(vectors),
        "query_codes": bank.transform(queries),
        "query_margins": bank.decision_function(queries),
    }.items():
        np.save(folder / f"{name}.npy", array)
    index = HammingIndex(bank.transform(vectors), n_bits=20)
    index.save(folder / "index.pbi")
    return folder


@pytest.fixture
def run(data, monkeypatch, capsys):
    """Run a command in the folder of the data; give its exit code, output and errors."""

    def command(*words):
        monkeypatch.chdir(data)
        monkeypatch.setattr(sys, "argv", ["projbank", *map(str, words)])
        with pytest.raises(SystemExit) as stop:
            main()
        captured = capsys.readouterr()
        return stop.value.code or 0, captured.out, captured.err

    return command


def results(text):
    lines = [json.loads(line) for line in text.splitlines()]
    return np.array([line["ids"] for line in lines]), [line["query"] for line in lines]


def test_index_writes_what_the_library_writes(run, data, tmp_path):
    code, out, _ = run("index", "codes.npy", "-o", tmp_path / "new.pbi", "--bits", 20)
    assert (code, out) == (0, f"{tmp_path / 'new.pbi'}: 120 codes of 20 bits\n")
    assert (tmp_path / "new.pbi").read_bytes() == (data / "index.pbi").read_bytes()


def test_index_with_own_ids(run, tmp_path):
    np.save(tmp_path / "ids.npy", np.arange(120)[::-1] * 7)
    assert run("index", "codes.npy", "-o", tmp_path / "own.pbi", "--ids", tmp_path / "ids.npy")[0] == 0
    index = HammingIndex.load(tmp_path / "own.pbi")
    assert (index.n_bits, index.ids[:2].tolist()) == (24, [833, 826])


@pytest.mark.parametrize("batch", [4, 1024])
def test_codes_and_vectors_with_a_bank_give_the_same(run, data, batch, monkeypatch):
    monkeypatch.setattr("projbank.cli.search.QUERIES_PER_BATCH", batch)
    expected = HammingIndex.load(data / "index.pbi").search(np.load(data / "query_codes.npy"), 5)
    for words in (["query_codes.npy"], ["queries.npy", "--bank", "bank.safetensors"]):
        code, out, _ = run("search", "index.pbi", *words, "-k", 5, "--format", "jsonl")
        ids, numbers = results(out)
        assert (code, numbers) == (0, list(range(9)))
        np.testing.assert_array_equal(ids, expected[1])
        assert json.loads(out.splitlines()[3])["distances"] == expected[0][3].tolist()


def test_asymmetric_from_margins_or_from_vectors(run, data):
    scores, expected = HammingIndex.load(data / "index.pbi").search(np.load(data / "query_margins.npy"), 5)
    for words in (["query_margins.npy"], ["queries.npy", "--bank", "bank.safetensors", "--asymmetric"]):
        _, out, _ = run("search", "index.pbi", *words, "-k", 5, "--format", "jsonl")
        np.testing.assert_array_equal(results(out)[0], expected)
        np.testing.assert_allclose(json.loads(out.splitlines()[0])["scores"], scores[0], rtol=1e-6)


def test_two_stages(run, data):
    index, margins = HammingIndex.load(data / "index.pbi"), np.load(data / "query_margins.npy")
    expected = index.search(margins, 3, rerank="asymmetric", shortlist=30)[1]
    words = ["--bank", "bank.safetensors", "-k", 3, "--shortlist", 30, "--format", "jsonl"]
    _, out, _ = run("search", "index.pbi", "queries.npy", *words, "--rerank", "asymmetric")
    np.testing.assert_array_equal(results(out)[0], expected)
    vectors, queries = np.load(data / "vectors.npy"), np.load(data / "queries.npy")
    codes = np.load(data / "query_codes.npy")
    expected = index.search(codes, 3, rerank=vectors, query_vectors=queries, shortlist=30, metric="cosine")[1]
    _, out, _ = run("search", "index.pbi", "queries.npy", *words, "--rerank", "vectors.npy", "--metric", "cosine")
    np.testing.assert_array_equal(results(out)[0], expected)
    words = ["--rerank", "vectors.npy", "--query-vectors", "queries.npy", *words[2:], "--metric", "cosine"]
    _, out, _ = run("search", "index.pbi", "query_codes.npy", *words)
    np.testing.assert_array_equal(results(out)[0], expected)


def test_one_row(run):
    _, everything, _ = run("search", "index.pbi", "query_codes.npy", "--format", "jsonl")
    _, one, _ = run("search", "index.pbi", "query_codes.npy", "--format", "jsonl", "--row", 7)
    assert one == everything.splitlines(keepends=True)[7]


def test_csv_and_table_say_the_same(run, tmp_path):
    _, text, _ = run("search", "index.pbi", "query_codes.npy", "-k", 2, "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert list(rows[0]) == ["query", "rank", "id", "distance"]
    assert len(rows) == 18
    _, table, _ = run("search", "index.pbi", "query_codes.npy", "-k", 2)
    assert [line.split() for line in table.splitlines()[1:]] == [list(row.values()) for row in rows]
    code, out, _ = run("search", "index.pbi", "query_codes.npy", "-k", 2, "--format", "csv", "-o", tmp_path / "out.csv")
    assert (code, out) == (0, "")
    assert (tmp_path / "out.csv").read_text() == text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["index", "none.npy", "-o", "x.pbi"], "none.npy: no such file"),
        (["index", "vectors.npy", "-o", "x.pbi"], "dtype uint8. Got dtype float32"),
        (["index", "codes.npy", "-o", "x.pbi", "--bits", 30], "as 30 bits need"),
        (["index", "codes.npy", "-o", "nowhere/x.pbi"], "no folder .*nowhere"),
        (["index", "codes.npy", "-o", "x.pbi", "--ids", "query_codes.npy"], "ids must be of shape"),
        (["search", "codes.npy", "query_codes.npy"], "codes.npy: not an index file"),
        (["search", "bank.safetensors", "query_codes.npy"], "not an index of projbank"),
        (["search", "index.pbi", "query_codes.npy", "--asymmetric"], "needs margins"),
        (["search", "index.pbi", "queries.npy"], r"shape \(n, 20\)"),
        (["search", "index.pbi", "query_codes.npy", "--row", 9], r"--row must be in the range \[0, 8\]"),
        (["search", "index.pbi", "query_codes.npy", "-k", 0], "'k' parameter"),
        (["search", "index.pbi", "query_codes.npy", "--rerank", "vectors.npy"], "--query-vectors"),
        (
            ["search", "index.pbi", "query_codes.npy", "--rerank", "vectors.npy", "--query-vectors", "vectors.npy"],
            "120 vectors for 9 queries",
        ),
        (["search", "index.pbi", "codes.npy", "--bank", "bank.safetensors"], "holds packed codes"),
        (["search", "index.pbi", "query_margins.npy", "--bank", "bank.safetensors"], "expects 64"),
        (["search", "index.pbi", "query_codes.npy", "-k", 0, "-o", "out.csv"], "'k' parameter"),
    ],
)
def test_errors_are_one_line_and_leave_no_file(run, data, words, message):
    before = sorted(path.name for path in data.iterdir())
    code, out, err = run(*words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    with pytest.raises(ValueError, match=message):
        raise ValueError(err)
    assert sorted(path.name for path in data.iterdir()) == before


def test_bank_of_another_length(run, data, tmp_path):
    HammingIndex(n_bits=21).save(tmp_path / "other.pbi")
    code, _, err = run("search", tmp_path / "other.pbi", "queries.npy", "--bank", "bank.safetensors")
    assert code == 2
    assert "codes of 20 bits, but the index holds codes of 21 bits" in err
