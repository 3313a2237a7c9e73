"""A real local cluster of two processes: results are those of one process, also when workers are killed."""

import os
import signal
import threading
import time

import numpy as np
import pytest

from projbank import HammingIndex, KernelProjectionBank, ProjectionBank
from projbank.methods import METHODS

distributed = pytest.importorskip("distributed")
cluster = pytest.importorskip("projbank.cluster")
N, D = 700, 300


@pytest.fixture(scope="module")
def client():
    with cluster.cluster("local:2") as client:
        yield client


@pytest.fixture(scope="module")
def vectors(tmp_path_factory):
    path = tmp_path_factory.mktemp("vectors") / "x.npy"
    np.save(path, np.random.default_rng(0).standard_normal((N, D)).astype(np.float32))
    return path


@pytest.fixture
def small_tasks(monkeypatch):
    monkeypatch.setattr(cluster, "_TASK_BYTES", 4 * D * 40)
    monkeypatch.setattr(cluster, "_READ_BYTES", 4 * D * 16)


class Deadly:
    """Kills the process that codes a block of rows, as a system out of memory does."""

    def __call__(self, rows, out):
        os.kill(os.getpid(), signal.SIGKILL)


class Slow:
    """Codes a block of rows after a while."""

    def __call__(self, rows, out):
        time.sleep(0.05)
        out[:, 0] = rows[:, 0] > 0
        return True


@pytest.mark.usefixtures("small_tasks")
@pytest.mark.parametrize("solver", ["mixed", "joint", "paper", "random"])
def test_banks_and_codes_are_those_of_one_process(solver, client, vectors):
    X = np.load(vectors)
    rows = cluster.ClusterRows(vectors, client)
    params = {"solver": solver, "max_iter": 3}
    one, other = (ProjectionBank(40, **params).fit(given) for given in (X, rows))
    assert one.identity() == other.identity()
    np.testing.assert_array_equal(one.transform(rows), one.transform(X))
    np.testing.assert_array_equal(one.decision_function(rows), one.decision_function(X))


@pytest.mark.usefixtures("small_tasks")
@pytest.mark.parametrize("preserve", ["neighbourhoods", "distances"])
def test_identity_does_not_depend_on_threads_or_workers(preserve, vectors):
    X = np.load(vectors)
    params = {"preserve": preserve, "max_iter": 3, "n_components": 20, "train_size": 400}
    one = ProjectionBank(40, n_jobs=1, **params).fit(X)
    codes = one.transform(X)
    two = ProjectionBank(40, n_jobs=2, **params).fit(X)
    assert two.identity() == one.identity()
    np.testing.assert_array_equal(two.transform(X), codes)
    with cluster.cluster("local:4") as client:
        rows = cluster.ClusterRows(vectors, client)
        assert ProjectionBank(40, **params).fit(rows).identity() == one.identity()
        np.testing.assert_array_equal(one.transform(rows), codes)
        np.testing.assert_array_equal(one.transform(rows.part(210, 555)), codes[210:555])
        np.testing.assert_array_equal(one.transform(rows.part(100, 600).part(7, 80)), codes[107:180])
        ids = np.arange(4, N, 9)
        np.testing.assert_array_equal(one.transform(rows.part(4, N).chosen(ids - 4)), codes[ids])


def test_kernel_banks_are_those_of_one_process(client, vectors):
    params = {"n_basis": 60, "max_iter": 2, "n_neighbors": 5}
    one, other = (
        KernelProjectionBank(10, **params).fit(X) for X in (np.load(vectors), cluster.ClusterRows(vectors, client))
    )
    assert one.identity() == other.identity()
    rows = cluster.ClusterRows(vectors, client)
    np.testing.assert_array_equal(one.transform(rows), one.transform(np.load(vectors)))


def test_statistics_are_those_of_one_process(client, vectors):
    from projbank.rows.source import as_rows

    rows = cluster.ClusterRows(vectors, client)
    for ids in (np.arange(N), np.arange(3, N, 7)):
        found, expected = rows.chosen(ids).statistics(), as_rows(np.load(vectors)[ids]).statistics()
        np.testing.assert_array_equal(found.means, expected.means)
        np.testing.assert_array_equal(found.deviations, expected.deviations)


def test_killed_workers_cost_time_not_results(client, vectors):
    rows = cluster.ClusterRows(vectors, client)
    out = np.zeros((N, 1), np.uint8)
    bounds = [(start, min(N, start + 10)) for start in range(0, N, 10)]

    def kill():
        for wait in (0.4, 1.5):
            time.sleep(wait)
            pids = list(client.run(os.getpid).values())
            os.kill(pids[0], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    rows.write(Slow(), out, bounds)
    killer.join()
    np.testing.assert_array_equal(out[:, 0], np.load(vectors)[:, 0] > 0)


def test_tasks_that_kill_every_worker_are_given_up(vectors):
    import dask

    with dask.config.set({"distributed.scheduler.allowed-failures": 1}), cluster.cluster("local:2") as client:
        rows = cluster.ClusterRows(vectors, client)
        with pytest.raises(OSError, match="killed again and again in the same task; they may need more memory"):
            rows.write(Deadly(), np.zeros((N, 1), np.uint8), [(0, N)])


@pytest.mark.parametrize(
    ("states", "error", "words"),
    [
        (["paused", "paused"], MemoryError, "all workers of the cluster are out of memory and paused"),
        ([], OSError, "the cluster has no workers left"),
    ],
)
def test_workers_that_cannot_go_on_are_told_not_waited_for(states, error, words):
    class Client:
        def scheduler_info(self, n):
            return {"workers": {str(i): {"status": state} for i, state in enumerate(states)}}

    class Future:
        def result(self, timeout):
            raise TimeoutError

        def done(self):
            return False

    with pytest.raises(error, match=words):
        cluster._result(Client(), Future())


def test_bad_values_are_named_by_their_row_among_all(client, vectors, tmp_path):
    X = np.load(vectors)
    bank = ProjectionBank(8, solver="random").fit(X)
    X[612, 3] = np.nan
    np.save(tmp_path / "bad.npy", X)
    with pytest.raises(ValueError, match="NaN at row 612, column 3"):
        bank.transform(cluster.ClusterRows(tmp_path / "bad.npy", client))


@pytest.mark.usefixtures("small_tasks")
def test_files_and_methods_that_change_are_sent_anew(client, tmp_path):
    X, path = np.random.default_rng(3).standard_normal((2, N, D)).astype(np.float32), tmp_path / "x.npy"
    bank, method = ProjectionBank(8, solver="random").fit(X[0]), METHODS["itq"](n_bits=6, random_state=0)
    for part in X:
        np.save(tmp_path / "new.npy", part)
        os.replace(tmp_path / "new.npy", path)
        rows = cluster.ClusterRows(path, client)
        np.testing.assert_array_equal(bank.transform(rows), bank.transform(part))
        method.fit(part)  # the same object codes otherwise now
        np.testing.assert_array_equal(method.transform(rows), method.transform(part))
    np.testing.assert_array_equal(method.fit(X[0]).transform(rows), method.transform(X[1]))


def test_a_bank_travels_once_for_all_parts(client, vectors, monkeypatch):
    submitted, submit = [], cluster._submitted
    monkeypatch.setattr(cluster, "_submitted", lambda *given: submitted.append(given[-1]) or submit(*given))
    bank, rows = ProjectionBank(8, max_iter=2).fit(np.load(vectors)), cluster.ClusterRows(vectors, client)
    for start in range(0, N, 100):
        bank.transform(rows.part(start, start + 100))
    n_weights = bank.model_.nbytes
    assert sum(len(packed) > n_weights for packed in submitted) == 1
    assert sum(len(packed) <= n_weights for packed in submitted) == N // 100


@pytest.mark.parametrize("kind", ["numbers", "texts"])
def test_shards_are_searched_as_one_index(kind, client, tmp_path):
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 4, (300, 1), dtype=np.uint8)  # many ties
    ids = rng.permutation(300) if kind == "numbers" else [f"code {i}" for i in range(300)]
    parts = np.array_split(np.arange(300), 3)
    for i, part in enumerate(parts):
        HammingIndex(codes[part], ids=[ids[j] for j in part], n_bits=8).save(tmp_path / f"{i}.pbi")
    paths = sorted(tmp_path.glob("*.pbi"))
    shards, whole = cluster.ClusterIndex(paths, client), HammingIndex(codes, ids=ids, n_bits=8)
    assert len(shards) == 300
    queries = rng.integers(0, 256, (7, 1), dtype=np.uint8)
    for k in (1, 50, 250):
        for found, expected in zip(shards.search(queries, k), whole.search(queries, k), strict=True):
            np.testing.assert_array_equal(found, expected)
    margins = rng.standard_normal((5, 8)).astype(np.float32)
    for found, expected in zip(shards.search(margins, 40), whole.search(margins, 40), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("address", ["local:0", "local", "here:3", "local:x"])
def test_bad_addresses_are_told(address):
    with pytest.raises(ValueError, match=r"--cluster must be local:N"), cluster.cluster(address):
        pass
