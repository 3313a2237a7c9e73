import operator
import os
import threading

import pytest

from projbank.features.workers import Processes
from projbank.threads import available_cores, run_all, run_ordered, split_rows, thread_count


def test_thread_count():
    cores = available_cores()
    assert thread_count(None) == thread_count(-1) == cores
    assert thread_count(3) == 3
    assert thread_count(-2) == max(1, cores - 1)
    assert thread_count(-1000) == 1
    for wrong in (0, 1.5, "2", True):
        with pytest.raises(ValueError, match="'n_jobs'"):
            thread_count(wrong)


def test_split_rows():
    assert split_rows(10, 4) == [(0, 4), (4, 8), (8, 10)]
    assert split_rows(0, 4) == []


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_all_calls_are_made(n_threads):
    assert sorted(run_all(lambda a, b: a * b, [(i, 2) for i in range(50)], n_threads)) == list(range(0, 100, 2))


@pytest.mark.parametrize("n_threads", [1, 2])
def test_an_error_stops_the_rest(n_threads):
    made = []

    def work(i):
        made.append(i)
        if i == 3:
            raise ValueError("three")

    with pytest.raises(ValueError, match="three"):
        list(run_all(work, [(i,) for i in range(1000)], n_threads))
    assert len(made) < 100


def test_work_is_spread_over_threads():
    meeting = threading.Barrier(2, timeout=30)
    assert len(list(run_all(lambda _: meeting.wait(), [(0,), (1,)], 2))) == 2


def test_results_come_in_the_order_of_the_calls():
    late = threading.Event()

    def work(i):
        if i == 0:
            assert late.wait(30)
        late.set()
        return i

    assert run_ordered(work, [(i,) for i in range(9)], 2) == list(range(9))
    assert run_ordered(lambda i: -i, [(1,), (2,)], 1) == [-1, -2]


def test_of_several_errors_the_earliest_call_s_is_raised():
    late = threading.Event()

    def work(i):
        if i == 0:
            late.wait(30)
        else:
            late.set()
        raise ValueError(f"call {i}")

    for _ in range(20):
        late.clear()
        with pytest.raises(ValueError, match="call 0"):
            list(run_all(work, [(0,), (1,)], 2))


def test_a_worker_process_has_one_core():
    with Processes(available_cores, 2) as processes:  # calls what it is given: in a worker
        assert list(processes.run(operator.call, [(), ()])) == [1, 1]


def test_this_process_works_until_workers_have_started():
    with Processes(os.getpid, 2) as processes:
        first, second = (list(processes.run(operator.call, [()] * 30)) for _ in range(2))
    assert os.getpid() in first[2:]
    assert os.getpid() not in first[:2] + second


def test_errors_of_workers_and_of_this_process_come_in_order():
    calls = [(1, i) for i in (1, 2, 0, 4, 5)]
    with Processes(operator.truediv, 2) as processes:
        results = processes.run(operator.call, calls)
        assert [next(results), next(results)] == [1, 0.5]
        with pytest.raises(ZeroDivisionError):
            next(results)
