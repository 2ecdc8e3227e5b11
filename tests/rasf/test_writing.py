"""Writing files: symlinks, devices and pipes, modes, errors that name the file, and what killed writers leave."""

import errno
import os
import socket
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from rasf import files
from rasf.cli.terminal import check_writable
from rasf.files import load_file, save_file, write_atomically, write_text

WRITER = """
import sys, time
from pathlib import Path
from rasf.files import write_atomically
def write(partial):
    Path(partial).write_text("half")
    print(partial, flush=True)
    time.sleep(60)
write_atomically(Path(sys.argv[1]), write)
"""


@pytest.fixture
def writer():
    """A process in the middle of writing a file, and its temporary file."""
    started = []

    def start(path):
        started.append(subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True))
        return started[-1], Path(started[-1].stdout.readline().strip())

    yield start
    for each in started:
        each.kill()
        each.communicate()


def hidden(folder):
    return sorted(path for path in folder.iterdir() if path.name.startswith("."))


# --- what a path may be


def test_a_symlink_is_followed_and_kept(tmp_path):
    (tmp_path / "there").mkdir()
    for name in ("there/old", "there/new"):  # the second does not exist yet
        link = tmp_path / name.replace("/", "-")
        link.symlink_to(name)
        if name == "there/old":
            (tmp_path / name).write_text("before")
        check_writable("out", link)
        write_text(link, "after")
        assert link.is_symlink()
        assert not (tmp_path / name).is_symlink()
        assert (tmp_path / name).read_text() == "after"
    loop = tmp_path / "loop"
    loop.symlink_to("loop")
    with pytest.raises(OSError, match="cannot be written") as refused:
        write_text(loop, "")
    assert refused.value.filename == str(loop)
    with pytest.raises(ValueError, match="out cannot be written"):
        check_writable("out", loop)


def test_a_pipe_is_written_to_as_it_is(tmp_path):
    """Text, and a container, which the reader on the other side can load."""
    pipe, kept = tmp_path / "pipe", tmp_path / "kept"
    os.mkfifo(pipe, 0o600)

    def passed_on(write):
        reader = threading.Thread(target=lambda: kept.write_bytes(pipe.read_bytes()), daemon=True)
        reader.start()
        assert check_writable("json", pipe) == pipe
        write()
        reader.join(10)
        assert stat.S_ISFIFO(pipe.stat().st_mode)
        assert stat.S_IMODE(pipe.stat().st_mode) == 0o600
        return kept

    assert passed_on(lambda: write_text(pipe, "β" * 100_000)).read_text() == "β" * 100_000
    header, arrays = load_file(passed_on(lambda: save_file(pipe, {"a": 1}, {"x": np.arange(30_000)})))
    assert header == {"a": 1}
    np.testing.assert_array_equal(arrays["x"], np.arange(30_000))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept", "pipe"]


def test_a_device_stays_a_device(tmp_path):
    device = tmp_path / "null"
    try:
        os.mknod(device, 0o600 | stat.S_IFCHR, os.makedev(1, 3))
        device.write_bytes(b"")
    except OSError:
        pytest.skip("devices cannot be made here")
    check_writable("json", device)
    write_text(device, "text")
    save_file(device, {}, {"x": np.zeros(3)})
    assert stat.S_ISCHR(device.stat().st_mode)
    assert stat.S_IMODE(device.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["null"]


def test_an_open_descriptor_is_written_to_where_it_stands(tmp_path):
    """As /dev/stdout is, also when the shell sent it into a file: that file goes on after what was written."""
    with open(tmp_path / "printed", "w+") as printed:
        print("before", file=printed, flush=True)
        link = tmp_path / "stdout"
        link.symlink_to(f"/proc/self/fd/{printed.fileno()}")
        for path in (Path(f"/dev/fd/{printed.fileno()}"), link):
            check_writable("json", path)
            write_text(path, "text\n")
        print("after", file=printed, flush=True)
        assert (tmp_path / "printed").read_text() == "before\ntext\ntext\nafter\n"
    read, write = os.pipe()
    write_text(Path(f"/dev/fd/{write}"), "piped")
    os.close(write)
    assert os.read(read, 100) == b"piped"
    os.close(read)
    with pytest.raises(OSError, match="cannot be written"):
        write_text(Path(f"/dev/fd/{write}"), "closed")


def test_what_cannot_be_written_to_is_refused_in_a_sentence(tmp_path):
    kinds = {"directory": tmp_path / "folder"}
    kinds["directory"].mkdir()
    (tmp_path / "link").symlink_to("folder")
    with socket.socket(socket.AF_UNIX) as bound:
        kinds["socket"] = tmp_path / "socket"
        bound.bind(str(kinds["socket"]))
        try:
            os.mknod(tmp_path / "disk", 0o600 | stat.S_IFBLK, os.makedev(7, 250))
            kinds["block device"] = tmp_path / "disk"
        except OSError:
            pass
        for kind, path in [*kinds.items(), ("directory", tmp_path / "link")]:
            before = path.lstat()
            for write in (lambda path: write_text(path, ""), lambda path: save_file(path, {}, {})):
                with pytest.raises(ValueError, match=f"^path must name a file; {path} is a {kind}$"):
                    write(path)
            with pytest.raises(ValueError, match=f"^out must name a file; {path} is a {kind}$"):
                check_writable("out", path)
            assert path.lstat() == before


def test_what_is_no_path_is_refused_in_a_sentence():
    for path in (None, 3, 3.5, b"bytes", "", "a\0b", "\udcff\ud800", ["a"], np.zeros(2)):
        for use in (lambda path: save_file(path, {}, {}), load_file):
            with pytest.raises(ValueError, match=r"\Apath must be the name of a file[^\n]+\Z"):
                use(path)


def test_the_mode_of_a_file_is_that_of_any_other(tmp_path):
    before = os.umask(0o027)
    try:
        write_text(tmp_path / "new", "")
        (tmp_path / "plain").touch()
    finally:
        os.umask(before)
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "plain").stat().st_mode
    for mode in (0o600, 0o664):
        (tmp_path / "new").chmod(mode)
        write_text(tmp_path / "new", "again")
        assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == mode


def test_an_error_while_writing_names_the_file_and_leaves_the_old(tmp_path):
    path = tmp_path / "a.rasf"
    path.write_text("old")

    def full(partial):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def full_and_removed(partial):  # as pyarrow does
        os.unlink(partial)
        raise OSError("disk quota exceeded")

    for write, number, reason in ((full, errno.ENOSPC, "No space left"), (full_and_removed, errno.EIO, "disk quota")):
        with pytest.raises(OSError, match=f"cannot be written: {reason}") as refused:
            write_atomically(path, write)
        assert (refused.value.errno, refused.value.filename) == (number, str(path))
        assert os.listdir(tmp_path) == ["a.rasf"]
        assert path.read_text() == "old"


# --- what killed writers leave


def test_the_next_write_removes_what_killed_writers_left_and_nothing_else(tmp_path, writer):
    dead, live = [writer(tmp_path / name) for name in ("a.rasf", "a.rasf", "b.rasf")], writer(tmp_path / "a.rasf")
    for process, _ in dead:
        process.kill()
        process.wait()
    (tmp_path / ".rasf-mine").touch()
    assert len(hidden(tmp_path)) == 5
    write_text(tmp_path / "c.txt", "text")
    assert hidden(tmp_path) == sorted([tmp_path / ".rasf-mine", live[1]])
    assert live[1].name.split("-")[2] == str(live[0].pid)


def test_where_locks_say_nothing_age_does(tmp_path, monkeypatch):
    """Of another host, and on a file system that has no locks."""
    other, own = (tmp_path / f".rasf-{host}-1-{'0' * 16}.partial" for host in (f"not{files._HOST}", files._HOST))
    long_ago = time.time() - 2 * 24 * 3600
    for each in (other, own):
        each.touch()
    write_text(tmp_path / "a", "")
    assert hidden(tmp_path) == [other]
    os.utime(other, (long_ago, long_ago))
    write_text(tmp_path / "a", "")
    assert hidden(tmp_path) == []

    def unsupported(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(files.fcntl, "flock", unsupported)
    own.touch()
    write_text(tmp_path / "a", "")
    assert hidden(tmp_path) == [own]
    os.utime(own, (long_ago, long_ago))
    write_text(tmp_path / "a", "")
    assert hidden(tmp_path) == []


def test_writers_at_the_same_time_do_not_disturb_each_other(tmp_path):
    """Threads write and clean up as fast as they can; each file is one writer's, whole."""
    texts = [str(n) * 5_000 for n in range(8)]
    wrong = []

    def write_many(text):
        try:
            for n in range(60):
                write_text(tmp_path / f"{n % 3}.txt", text)
        except OSError as error:
            wrong.append(error)

    threads = [threading.Thread(target=write_many, args=(text,)) for text in texts]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert wrong == []
    assert all((tmp_path / f"{n}.txt").read_text() in texts for n in range(3))
    assert hidden(tmp_path) == []


def test_a_file_that_was_removed_before_it_was_locked_is_made_again(tmp_path, monkeypatch):
    """The moment between making a temporary file and locking it, when another write may take it for a dead one's."""
    plain, removed = files.fcntl.flock, []

    def flock(handle, operation):
        if operation == files.fcntl.LOCK_EX and not removed:
            removed.extend(hidden(tmp_path))
            files.remove_stale(tmp_path)
        plain(handle, operation)

    monkeypatch.setattr(files.fcntl, "flock", flock)
    write_text(tmp_path / "a", "text")
    assert len(removed) == 1
    assert (tmp_path / "a").read_text() == "text"
    assert hidden(tmp_path) == []
