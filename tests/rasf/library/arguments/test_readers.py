"""What a user writes in files: refused in one sentence where it is damaged, deep, or declares more than it has."""

import numpy as np
import pytest

from rasf.library.arguments.readers import read_toml, weights_in_file


def test_damaged_files_of_weights_get_a_sentence(tmp_path):
    np.save(tmp_path / "good.npy", np.eye(2))
    head = (tmp_path / "good.npy").read_bytes()
    for name, data in (
        ("deep.json", b"[" * 200_000),
        ("digits.json", b"[[" + b"9" * 5_000 + b"]]"),
        ("large.npy", head.replace(b"(2, 2), }           ", b"(1000000000000, 2), }")),
        ("negative.npy", head.replace(b"(2, 2), } ", b"(-2, 2), }")),
        ("short.npy", head[:-1]),
        ("head.npy", head[:10] + b"(" * (len(head) - 10)),
        ("object.npy", head.replace(b"<f8", b"|O ")),
    ):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(ValueError, match=r"\Atasks must be a file of weights[^\n]+\Z"):
            weights_in_file("tasks", tmp_path / name)
    np.testing.assert_array_equal(weights_in_file("tasks", tmp_path / "good.npy"), np.eye(2))


def test_a_file_that_is_nested_too_deeply_gets_a_sentence(tmp_path):
    (tmp_path / "deep.toml").write_text("a = " + "[" * 100_000)
    with pytest.raises(ValueError, match="is not a TOML file that can be read: its values are nested too deeply"):
        read_toml(tmp_path / "deep.toml")
