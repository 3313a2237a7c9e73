"""The SciFact example on a data set of its shape, with token vectors that are there already."""

import csv
import importlib.util
import io
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tests.text.data import stacked, texts

SCRIPT = Path(__file__).parents[2] / "examples" / "text.py"


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("scifact_example", SCRIPT.with_name("scifact.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write(archive, name, rows):
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerows(rows)
    archive.writestr(name, text.getvalue())


@pytest.fixture
def scifact(tmp_path):
    abstracts = [str(np.array([f"It isn't {i}.", f'Said "{i}".', f"Both ' and \" {i}."], object)) for i in range(12)]
    with zipfile.ZipFile(tmp_path / "scifact.zip", "w") as archive:
        corpus = [(100 + i, f"Title {i}", abstract) for i, abstract in enumerate(abstracts)]
        write(archive, "corpus_train.csv", [("doc_id", "title", "abstract"), *corpus])
        claims = [(7, "first", "[103]"), (7, "first", "[103 105]"), (9, "second", "[111]"), (9, "second", "[111]")]
        write(archive, "claims_validation.csv", [("id", "claim", "cited_doc_ids"), *claims])
    return tmp_path / "scifact.zip"


def test_scifact_is_read(example, scifact):
    documents, claims, relevant = example.read_scifact(scifact)
    assert documents[3] == 'Title 3. It isn\'t 3. Said "3". Both \' and " 3.'
    assert claims == ["first", "second"]
    assert relevant == [{3, 5}, {11}]


def test_ndcg_by_hand(example):
    ids = np.array([[4, 3, 5], [1, 2, 0]])
    discounts = 1 / np.log2([2, 3, 4])
    expected = ((discounts[1] + discounts[2]) / (discounts[0] + discounts[1]) + 0) / 2
    assert example.ndcg(ids, [{3, 5}, {7}]) == pytest.approx(expected)
    assert example.ndcg(ids, [{4}, {1, 2}]) == pytest.approx(1)


def test_the_table_comes_by_one_command(scifact, tmp_path):
    documents = texts(range(5, 17))
    for name, bags in (("documents", documents), ("claims", [documents[3][:4], documents[11][:3]])):
        for part, array in zip(("", ".offsets"), stacked(bags), strict=True):
            np.save(tmp_path / f"{name}{part}.npy", array)
    command = [sys.executable, str(SCRIPT), str(scifact), "--tokens", str(tmp_path), "--seeds", "2"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    assert printed[0] == "12 documents, 2 queries, 2 seeds"
    rows = {line[:36].strip(): line[36:].split() for line in printed[2:]}
    assert rows["MaxSim"][1:] == ["1.000", rows["MaxSim"][2]]
    assert all(row[-1] == rows["MaxSim"][-1] for row in rows.values())  # 12 documents: all are put in order anew
    assert rows["codes of 1280 bits"][0] == "160.0"


def test_missing_tokens_are_named(scifact, tmp_path):
    command = [sys.executable, str(SCRIPT), str(scifact), "--tokens", str(tmp_path / "none")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert "documents.npy is not there; --model says with what to compute it" in done.stderr
