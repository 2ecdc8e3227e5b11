import asyncio
import logging
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from rasf_explorer.jobs import CancelPrevious, Coalesce, Reports, sentence_of
from rasf_explorer.scenes.scene import Stopped


def in_a_loop(work):
    """In a thread of its own: tests with a browser leave a loop running in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


def wait(event):
    assert event.wait(10), "the other side never came"


def test_cancel_previous_gives_the_answer_and_a_stop_that_says_no():
    async def run():
        return await CancelPrevious(print).run(lambda a, b, stop: (a + b, stop()), 2, 3)

    assert in_a_loop(run()) == (5, False)


def test_cancel_previous_stops_what_was_overtaken_and_drops_its_answer():
    said, begun, saw_stop = [], threading.Event(), threading.Event()

    def slow(stop):
        begun.set()
        while not stop():
            pass
        saw_stop.set()
        return "old"

    async def run():
        jobs = CancelPrevious(said.append)
        old = asyncio.create_task(jobs.run(slow))
        await asyncio.to_thread(wait, begun)
        new = await jobs.run(lambda stop: "new")
        return await old, new

    assert in_a_loop(run()) == (None, "new")
    assert saw_stop.is_set()
    assert said == []


def test_cancel_previous_forgets_work_that_gave_up_or_was_stopped_by_hand():
    def gives_up(stop):
        raise Stopped

    async def run():
        jobs = CancelPrevious(print)
        first = await jobs.run(gives_up)
        begun = threading.Event()

        def slow(stop):
            begun.set()
            while not stop():
                pass
            raise ValueError("nobody wants to hear this")

        second = asyncio.create_task(jobs.run(slow))
        await asyncio.to_thread(wait, begun)
        jobs.stop()
        return first, await second

    assert in_a_loop(run()) == (None, None)


def test_an_error_becomes_one_sentence():
    said = []

    def fails(stop):
        raise ValueError("w must be\n two numbers")

    async def run():
        return await CancelPrevious(said.append).run(fails)

    assert in_a_loop(run()) is None
    assert said == ["w must be two numbers"]


def test_surprises_are_told_and_logged(caplog):
    with caplog.at_level(logging.ERROR):
        assert sentence_of(ZeroDivisionError("division by zero")) == (
            "This could not be computed: ZeroDivisionError: division by zero"
        )
    assert "the explorer met an error" in caplog.text


def test_the_event_loop_goes_on_while_work_runs():
    done = threading.Event()

    async def run():
        task = asyncio.create_task(CancelPrevious(print).run(lambda stop: wait(done)))
        for _ in range(5):
            await asyncio.sleep(0)
        done.set()  # only reached if the loop is not blocked: the work waits for it
        await task

    in_a_loop(run())


def test_coalesce_finishes_what_runs_and_then_takes_only_the_newest():
    ran, begun, go_on = [], threading.Event(), threading.Event()

    def work(name):
        ran.append(name)
        if name == "first":
            begun.set()
            wait(go_on)
        return name

    async def run():
        jobs = Coalesce(print)
        tasks = [asyncio.create_task(jobs.run(work, "first"))]
        await asyncio.to_thread(wait, begun)
        tasks += [asyncio.create_task(jobs.run(work, name)) for name in ("second", "third", "fourth")]
        await asyncio.sleep(0)
        go_on.set()
        return await asyncio.gather(*tasks)

    assert in_a_loop(run()) == ["first", None, None, "fourth"]
    assert ran == ["first", "fourth"]


def test_coalesce_begins_nothing_once_it_is_closed():
    async def run():
        jobs = Coalesce(print)
        jobs.close()
        return await jobs.run(lambda: "answer")

    assert in_a_loop(run()) is None


def test_coalesce_goes_on_after_an_error():
    said = []

    async def run():
        jobs = Coalesce(said.append)
        return await jobs.run(float, "x"), await jobs.run(float, "1")

    assert in_a_loop(run()) == (None, 1.0)
    assert len(said) == 1


@pytest.mark.parametrize("count", [1, 50])
def test_reports_come_in_the_loop_and_the_last_one_always_comes(count):
    async def run():
        shown, loop_thread = [], threading.get_ident()
        reports = Reports(lambda share: shown.append((share, threading.get_ident() == loop_thread)))
        await asyncio.to_thread(lambda: [reports(i) for i in range(count)])
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return shown

    shown = in_a_loop(run())
    assert shown[-1] == (count - 1, True)
    assert all(in_loop for _, in_loop in shown)
