import socket
import sys
import threading
from copy import copy

import pytest

from rasf.explorer.app import page_style, serve
from rasf.explorer.drawing import palette
from rasf.explorer.scenes.scene import Stopped
from rasf.explorer.views import View, Views


def ended(view):
    view._thread.join(10)
    return view


def test_a_port_that_is_taken_is_said_in_a_sentence_that_names_the_option():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ValueError, match=rf"127.0.0.1, port {port}, cannot be used: .*; --port takes another one"):
            serve(None, port=port, show=False)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"port": -1}, "port must be a whole number from 0 to 65535, got -1"),
        ({"port": 70000}, "port must be a whole number from 0 to 65535, got 70000"),
        ({"host": "no such host"}, "host must be a name or an address of this machine, got 'no such host'"),
        ({"host": "8.8.8.8"}, "host must be a name or an address of this machine, got '8.8.8.8'$"),
        ({"seed": -1}, "seed must be a whole number of at least 0, got -1"),
    ],
)
def test_bad_options_are_refused_before_anything_is_served(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        serve(None, show=False, **options)


def test_the_page_has_the_palette_of_the_pictures_in_both_themes():
    style = page_style()
    assert f"--accent:{palette.LIGHT['accent']};" in style
    assert f"--accent:{palette.DARK['accent']};" in style
    assert "http" not in style


def test_a_view_is_made_once_in_the_background_and_tells_how_far_it_is():
    made, go_on = [], threading.Event()

    def make(tick, stop):
        tick(0.5)
        assert go_on.wait(10)
        made.append(stop())
        return "scene"

    view = View("key", "Title", "Making ...", "a library", make)
    assert (view.scene, view.error, view.share) == (None, None, None)
    view.begin()
    view.begin()
    go_on.set()
    ended(view)
    assert (view.scene, view.error, view.share, made) == ("scene", None, 0.5, [False])
    assert view.provenance["library"] == "a library"


def test_what_goes_wrong_is_one_sentence():
    def fails(tick, stop):
        raise ValueError("w must be\nfine")

    view = View("key", "Title", "Making ...", "", fails)
    view.begin()
    assert ended(view).error == "Title could not be made. w must be fine"


def test_a_view_that_nobody_waits_for_is_given_up():
    def endless(tick, stop):
        while not stop():
            pass
        raise Stopped

    view = View("key", "Title", "Making ...", "", endless)
    view.begin()
    view.stop()
    assert ended(view).error == "Title was given up."


def test_a_view_that_was_given_up_or_failed_is_begun_again():
    turns = []

    def make(tick, stop):
        turns.append(len(turns))
        if turns[-1] == 0:
            tick(0.5)
            while not stop():
                pass
            raise Stopped
        if turns[-1] == 1:
            raise ValueError("not yet")
        return stop()

    view = View("key", "Title", "Making ...", "", make)
    view.begin()
    view.stop()
    assert ended(view).error == "Title was given up."
    view.begin()
    assert ended(view).error == "Title could not be made. not yet"
    view.begin()
    assert ended(view).error is None
    assert (view.scene, view.share) == (False, None)  # an earlier stop is forgotten
    view.begin()
    ended(view)
    assert turns == [0, 1, 2]


@pytest.mark.parametrize(
    ("host", "local"),
    [("127.0.0.1", True), ("localhost", True), ("::1", True), ("0.0.0.0", False), ("", False), ("192.168.1.2", False)],
)
def test_others_are_told_to_be_able_to_connect_where_they_are(host, local, monkeypatch):
    from typer.testing import CliRunner

    from rasf.cli.main import app

    def ready_at_once(library, *, ready, **options):
        ready("http://there:8080/")

    monkeypatch.setattr("rasf.explorer.app.serve", ready_at_once)
    said = CliRunner().invoke(app, ["explore", "--host", host])
    assert said.exit_code == 0
    assert "the explorer is at http://there:8080/" in said.output
    assert ("others who reach this machine can connect" in said.output) is not local


def test_an_environment_of_the_user_s_is_imported_for_the_file_given(library, tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from rasf.cli.main import app

    served = []
    monkeypatch.setattr("rasf.explorer.app.serve", lambda library, *, env, **options: served.append(env))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", list(sys.path))
    (tmp_path / "explored_world.py").write_text("")
    assert CliRunner().invoke(app, ["explore", str(library[1]), "--env", "explored_world:My-v0"]).exit_code == 0
    assert served == ["My-v0"]
    assert "explored_world" in sys.modules
    with pytest.raises(ValueError, match="env must"):
        CliRunner().invoke(app, ["explore", "--env", "a:B-v0"], catch_exceptions=False)
    view = Views(library[0], seed=0, env="My-v0").first()
    view.begin()
    assert "'My-v0' is known here" in ended(view).scene.can_run()


def test_a_file_is_the_first_view_and_further_ones_come_last(library):
    views = Views(library[0], seed=0)
    first = views.first()
    usual = ["four-room", "grid", "reacher"]
    assert [view.key for view in views] == [first.key, *usual]
    assert views.add_library(library[0], "again.rasf") is first
    other = copy(library[0])
    other.provenance = {**other.provenance, "seed": 77}
    second = views.add_library(other, "another.rasf")
    assert [view.key for view in views] == [first.key, *usual, second.key]
    assert first.key.startswith("file-")
    assert second.key.startswith("file-")
    assert views.first() is first
    assert "another.rasf" in views.get(second.key).provenance["library"]
    assert Views(None, seed=0).first().key == "four-room"
