"""Views: made once, given up, begun again; and which there are."""

import threading
from copy import copy

from small_scenes import SmallScene

from rasf_explorer.scenes.scene import Stopped
from rasf_explorer.views import View, Views


def ended(view):
    view._thread.join(10)
    return view


def test_a_view_is_made_once_in_the_background_and_tells_how_far_it_is():
    scene, go_on = SmallScene(), threading.Event()

    def make(tick, stop):
        tick(0.5)
        assert go_on.wait(10)
        return scene

    view = View("key", "Title", "Making ...", "a library", make)
    assert (view.scene, view.error, view.share) == (None, None, None)
    view.begin()
    view.begin()
    go_on.set()
    ended(view)
    assert (view.scene, view.error, view.share, scene.warmed) == (scene, None, 0.5, [False])
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
    assert ended(view).error == "Title was cancelled."


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
        return SmallScene()

    view = View("key", "Title", "Making ...", "", make)
    view.begin()
    view.stop()
    assert ended(view).error == "Title was cancelled."
    view.begin()
    assert ended(view).error == "Title could not be made. not yet"
    view.begin()
    assert ended(view).error is None
    assert (view.scene.warmed, view.share) == ([False], None)  # an earlier stop is forgotten
    view.begin()
    ended(view)
    assert turns == [0, 1, 2]


def test_a_file_is_the_first_view_and_further_ones_come_last(library):
    views = Views(library[0], seed=0)
    first = views.first()
    usual = ["four-room", "grid", "reacher", "highway"]
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
    views.remove(second)
    assert [view.key for view in views] == [first.key, *usual]
    assert views.get(second.key) is None
