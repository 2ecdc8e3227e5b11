"""Faults for real: processes are killed with SIGKILL, at random moments of a fixed seed; a disk is really full."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from sweep_help import HEAD, executions, spec_of, stable_bytes

from rasf_lab.sweep.store import Store

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")
HERE = Path(__file__).parent.parent
FOUND = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])


def start_driver(spec, folder, workers=2, **environment):
    return subprocess.Popen(
        [sys.executable, str(HERE / "sweep_driver.py"), str(spec), str(folder), str(workers)],
        env={**os.environ, "PYTHONPATH": FOUND, **environment},
        stderr=subprocess.PIPE,
        text=True,
    )


def workers_of(driver):
    """Process ids of the workers a driver has now."""
    try:
        children = Path(f"/proc/{driver.pid}/task/{driver.pid}/children").read_text().split()
        return [int(each) for each in children if b"spawn_main" in Path(f"/proc/{each}/cmdline").read_bytes()]
    except OSError:  # one of them ended meanwhile
        return []


def lives(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_until(holds, seconds=60.0):
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.02)


def count_finished(folder):
    return len(list((folder / "runs").glob("*.run")))


def finish(driver):
    _, said = driver.communicate(timeout=300)
    return driver.returncode, said


@pytest.mark.parametrize(
    ("runs", "kills", "workers", "seed"),
    [pytest.param(28, 12, 2, 9, id="few"), pytest.param(160, 120, 4, 1, marks=pytest.mark.slow, id="many")],
)
def test_kills_of_workers_and_drivers_leave_no_trace_in_the_table(tmp_path, trace, runs, kills, workers, seed):
    spec = spec_of(tmp_path, HEAD + f'seeds = {runs // 2}\n[parameters]\nfail = "raise"\n[grid]\nscale = [1.0, 3.0]\n')
    file, calm, wild = tmp_path / "spec.toml", tmp_path / "calm", tmp_path / "wild"
    assert finish(start_driver(file, calm, workers, RASF_TEST_TRACE=str(tmp_path))) == (0, "")

    rng = random.Random(seed)
    moments = sorted(rng.randrange(runs - 12) for _ in range(kills))  # how many runs are finished by then
    killed = {"worker": 0, "driver": 0}
    driver = start_driver(file, wild, workers, RASF_TEST_SLEEP="0.1")
    for moment in moments:
        wait_until(lambda moment=moment, driver=driver: count_finished(wild) >= moment and workers_of(driver))
        time.sleep(rng.uniform(0.0, 0.15))
        victim = rng.choice(workers_of(driver) or [driver.pid]) if rng.random() < 0.75 else driver.pid
        os.kill(victim, signal.SIGKILL)
        killed["driver" if victim == driver.pid else "worker"] += 1
        if victim == driver.pid:
            assert finish(driver)[0] == -signal.SIGKILL
            driver = start_driver(file, wild, workers, RASF_TEST_SLEEP="0.1")
    assert finish(driver) == (0, "")

    assert stable_bytes(wild) == stable_bytes(calm)
    assert min(killed.values()) >= 3
    begun = executions(trace)
    assert begun.keys() == {run.id for run in spec.runs}
    assert {word for words in begun.values() for word in words} == {"begun"}  # never again, never beside itself
    assert sum(map(len, begun.values())) <= runs + killed["worker"] + workers * killed["driver"]
    for expected, found in ((Store(calm).finished(run), Store(wild).finished(run)) for run in spec.runs):
        assert (expected is None) == (found is None)
        assert expected is None or (expected.arrays["draws"] == found.arrays["draws"]).all()
    assert not [path for path in wild.rglob(".*") if path.is_file()]


def test_a_second_driver_leaves_the_first_alone_and_workers_do_not_survive_theirs(tmp_path):
    spec_of(tmp_path, HEAD + "seeds = 2\n[parameters]\nsleep = 60.0\n")
    driver = start_driver(tmp_path / "spec.toml", tmp_path / "s")
    wait_until(lambda: len(list((tmp_path / "s" / "scratch").glob("*"))) == 2)
    workers = workers_of(driver)
    assert len(workers) == 2
    code, said = finish(start_driver(tmp_path / "spec.toml", tmp_path / "s"))
    assert code == 1
    assert f"is already being run by process {driver.pid} on " in said
    assert workers_of(driver) == workers
    driver.kill()
    driver.wait()
    driver.stderr.close()
    wait_until(lambda: not any(map(lives, workers)), seconds=10.0)


def small_disks_allowed():
    asked = ["unshare", "--mount", "--map-root-user", "mount", "-t", "tmpfs", "none", "/tmp"]
    return shutil.which("unshare") is not None and subprocess.run(asked, capture_output=True).returncode == 0


FULL = """
set -e
mount -t tmpfs -o size=1m none "$2"
dd if=/dev/zero of="$2/ballast" bs=1k count=990 2>/dev/null
code=0; "$3" "$4" "$1" "$2/s" 2 || code=$?
ls "$2/s/runs" | wc -l
rm "$2/ballast"
"$3" "$4" "$1" "$2/s" 2
cp -r "$2/s" "$5"
exit $code
"""


def test_a_full_disk_stops_a_sweep_and_room_lets_it_go_on(tmp_path, trace):
    if not small_disks_allowed():
        pytest.skip("no right to mount a small disk")
    spec = spec_of(tmp_path, HEAD + "seeds = 8\n")
    disk = tmp_path / "disk"
    disk.mkdir()
    driver = str(HERE / "sweep_driver.py")
    arguments = [tmp_path / "spec.toml", disk, sys.executable, driver, tmp_path / "copy"]
    done = subprocess.run(
        ["unshare", "--mount", "--map-root-user", "sh", "-c", FULL, "sh", *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": FOUND},
        timeout=120,
    )
    assert done.returncode == 1, done.stderr
    assert "the disk is full" in done.stderr
    assert "make room and start the sweep again" in done.stderr
    assert 0 < int(done.stdout) < 8
    store = Store(tmp_path / "copy")
    assert all(store.is_finished(run) for run in spec.runs)
    assert store.failures(spec.runs) == {}
    assert {word for words in executions(trace).values() for word in words} == {"begun"}
