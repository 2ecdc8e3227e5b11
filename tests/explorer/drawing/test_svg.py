"""The pieces of pictures: escaping, numbers, widths; and the palette, as other eyes see it."""

import itertools
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from rasf_explorer.drawing import palette, svg


def test_outside_text_is_escaped_everywhere():
    bad = '<script>alert("1")</script> & \x00'
    root = ET.fromstring(
        svg.picture(
            10,
            10,
            svg.text(bad, 1, 2) + svg.element("g", svg.tooltip(bad), data_name=bad),
            kind="map",
            title=bad,
            description=bad,
            id_prefix="a",
        )
    )
    clean = bad.replace("\x00", "\ufffd")
    assert "script" not in {node.tag.split("}")[1] for node in root.iter()}
    assert [node.text for node in root.iter() if node.text and "alert" in node.text] == [clean] * 4
    group = next(node for node in root.iter() if node.get("data-name"))
    assert group.get("data-name") == clean


def test_the_frame_says_what_the_picture_is():
    root = ET.fromstring(svg.picture(30, 20, "", kind="map", title="T", description="D", id_prefix="p"))
    assert (root.get("viewBox"), root.get("width"), root.get("role")) == ("0 0 30 20", "100%", "img")
    assert root.get("class") == "rasf map"
    said = {node.get("id"): node.text for node in root if node.get("id")}
    assert [said[name] for name in root.get("aria-labelledby").split()] == ["T", "D"]


@pytest.mark.parametrize("prefix", ["", "1a", "a b", 'a"', "ä"])
def test_a_prefix_that_makes_no_id_is_refused(prefix):
    with pytest.raises(ValueError, match="id_prefix must"):
        svg.picture(1, 1, "", kind="map", title="", description="", id_prefix=prefix)


def test_coordinates_are_short():
    assert [svg.number(value) for value in (1.0, 1.25, -0.001, 100, 1 / 3, -2.5)] == [
        "1",
        "1.25",
        "0",
        "100",
        "0.33",
        "-2.5",
    ]


def test_quantities_are_for_people():
    values = (1.23456, -0.5, 0.0, -0.0, np.nan, np.inf, -np.inf, 12345.6, 123456.0, 1e9)
    assert [svg.shown(value) for value in values] == [
        "1.23",
        "−0.5",
        "0",
        "0",
        "–",
        "∞",
        "−∞",
        "12300",
        "123000",
        "1e+09",
    ]


def test_attributes_that_are_none_are_left_out():
    assert svg.element("g", class_="a", font_size=3, fill=None) == '<g class="a" font-size="3"/>'


def test_long_names_keep_both_ends():
    words = "class 1 +0.5, class 2 -1, goal +1; mean-variance -4"
    assert svg.shorten(words, 10, 1000) == words
    short = svg.shorten(words, 10, 150)
    assert svg.text_width(short, 10) <= 150
    assert short.startswith("class 1")
    assert short.endswith("-4")
    assert " … " in short
    assert svg.shorten("abcdefghijklmnop", 10, 40).endswith("…")
    assert svg.text_width(svg.shorten("abcdefghijklmnop", 10, 40), 10) <= 40


def linear(colour):
    part = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)


def luminance(colour):
    return linear(colour) @ [0.2126, 0.7152, 0.0722]


def contrast(one, other):
    dim, bright = sorted([luminance(one), luminance(other)])
    return (bright + 0.05) / (dim + 0.05)


def lab(rgb):
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    xyz = to_xyz @ np.clip(rgb, 0, 1) / [0.9505, 1, 1.089]
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


# How eyes without green, and without red, see linear RGB (Machado, Oliveira and Fernandes 2009).
WITHOUT_GREEN = [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
WITHOUT_RED = [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]


@pytest.mark.parametrize("theme", [palette.LIGHT, palette.DARK], ids=["light", "dark"])
class TestThemes:
    def test_words_are_readable(self, theme):
        for name in ("ink", "soft", "accent", "warn"):
            assert contrast(theme[name], theme["paper"]) >= 4.5, name
        assert contrast(theme["warn"], theme["warn-fill"]) >= 4.5
        for step in range(palette.HEAT):
            words = theme["on-high" if step >= palette.FIRST_HIGH else "on-low"]
            assert contrast(words, theme[f"h{step}"]) >= 4.5, step

    def test_heat_reads_in_grey(self, theme):
        away = [abs(lab(linear(theme[f"h{step}"]))[0] - lab(linear(theme["paper"]))[0]) for step in range(palette.HEAT)]
        assert all(later - earlier > 4 for earlier, later in itertools.pairwise(away))

    @pytest.mark.parametrize("eyes", [np.eye(3), WITHOUT_GREEN, WITHOUT_RED], ids=["usual", "no green", "no red"])
    def test_sources_stay_apart(self, theme, eyes):
        seen = [lab(np.array(eyes) @ linear(theme[f"d{look}"])) for look in range(palette.DRIVERS)]
        assert min(np.linalg.norm(one - other) for one, other in itertools.combinations(seen, 2)) > 12


def test_both_themes_name_the_same_colours():
    assert list(palette.LIGHT) == list(palette.DARK)


def test_every_look_has_its_own_pattern():
    marks = palette.patterns("a", range(palette.DRIVERS)).split("</pattern>")[:-1]
    assert len({mark.split("/>", 1)[1] for mark in marks}) == palette.DRIVERS


def test_looks_are_stable_and_few():
    assert palette.looks([3, 0, 5]) == {3: 3, 0: 0, 5: 5}
    assert palette.looks([3, 10]) == {3: 3, 10: 4}  # 10 would look like 3
    many = palette.looks(list(range(20)))
    assert sorted(many.values())[: palette.DRIVERS] == list(range(palette.DRIVERS))
    assert set(list(many.values())[palette.DRIVERS :]) == {palette.OTHER}


def test_heat_steps_cover_the_scale():
    shares = (0.0, 0.999, 1.0, -1.0, 2.0)
    assert [palette.heat_step(share) for share in shares] == [
        0,
        palette.HEAT - 1,
        palette.HEAT - 1,
        0,
        palette.HEAT - 1,
    ]
