"""Files of libraries: read back by us, by safetensors and by hand; what is not one is refused in one sentence."""

import hashlib
import json
import os
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors import safe_open
from safetensors.numpy import save_file as save_safetensors

from rasf.files import load_file, save_file

HEADER = {
    "environment": "rasf/FourRoom-v0",
    "tasks": [[0.5, -1.0]],
    "note": "β\n",
    "none": None,
}
DTYPES = ["?", "i1", "u1", "<i2", "<u2", "<f2", "<i4", "<u4", "<f4", "<i8", "<u8", "<f8"]
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20).filter("__metadata__".__ne__)
plain_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**1000), 2**1000)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4),
    max_leaves=20,
)
arrays_of_any_kind = hnp.arrays(st.sampled_from(DTYPES), hnp.array_shapes(min_dims=0, min_side=0, max_side=4))


def example_arrays():
    rng = np.random.default_rng(0)
    return {
        "psi": rng.normal(size=(2, 3, 2)),
        "action": np.array([3, 1, 2], np.uint8),
        "seen": np.array([True, False, True]),
        "weights": rng.normal(size=(3, 5)).astype(np.float32),
        "empty": np.zeros((0, 4), np.int64),
        "count": np.array(7, np.int32),
    }


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].dtype == array.dtype.newbyteorder("=")
        assert found[name].shape == array.shape
        assert found[name].tobytes() == array.astype(array.dtype.newbyteorder("<")).tobytes()


def refusal(function, *arguments):
    """The sentence, on one line, with which a call is refused."""
    with pytest.raises(ValueError, match=r"\A[^\n]+\Z") as refused:
        function(*arguments)
    return str(refused.value)


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "library.rasf"
    save_file(path, HEADER, example_arrays())
    return path


@settings(max_examples=200, deadline=None, derandomize=True)
@given(header=st.dictionaries(names, plain_json, max_size=5))
def test_any_json_comes_back_exactly(tmp_path_factory, header):
    """repr tells 1 from 1.0 and True, 0.0 from -0.0, and shows the order of keys."""
    path = tmp_path_factory.getbasetemp() / "header.rasf"
    save_file(path, header, {})
    found, arrays = load_file(path)
    assert repr(found) == repr(header)
    assert arrays == {}


@settings(max_examples=200, deadline=None, derandomize=True)
@given(arrays=st.dictionaries(names, arrays_of_any_kind, max_size=4))
def test_any_arrays_come_back_exactly_from_us_and_from_safetensors(tmp_path_factory, arrays):
    path = tmp_path_factory.getbasetemp() / "arrays.rasf"
    save_file(path, {}, arrays)
    found = load_file(path)[1]
    assert_same(found, arrays)
    assert all(array.flags.aligned and array.flags.writeable and array.flags.c_contiguous for array in found.values())
    with safe_open(path, "numpy") as file:
        assert_same({name: file.get_tensor(name) for name in file.keys()}, arrays)  # noqa: SIM118


def test_strided_fortran_and_big_endian_arrays_are_stored_plainly(tmp_path):
    table = np.arange(24.0).reshape(4, 6)
    arrays = {"T": table.T, "step": table[::2, ::-1], "big": table.astype(">f4"), "F": np.asfortranarray(table)}
    save_file(tmp_path / "a", {}, arrays)
    assert_same(load_file(tmp_path / "a")[1], arrays)


def test_layout_read_by_hand(saved):
    """The documented layout with nothing but json and hashlib."""
    data = saved.read_bytes()
    length = int.from_bytes(data[:8], "little")
    assert (8 + length) % 64 == 0
    head = json.loads(data[8 : 8 + length])
    label = head.pop("__metadata__")
    assert (label["format"], label["version"]) == ("rasf", "1")
    unsigned = data[: 8 + length].replace(label["sha256"].encode(), b"0" * 64)
    assert hashlib.sha256(unsigned).hexdigest() == label["sha256"]
    contents = json.loads(label["contents"])
    assert contents["header"] == HEADER
    assert list(head) == ["empty", "psi", "count", "weights", "action", "seen"]  # 8, 8, 4, 4, 1, 1 bytes
    end = 0
    for name, array in ((name, example_arrays()[name]) for name in head):
        begin, end = end, end + array.nbytes
        assert head[name]["data_offsets"] == [begin, end]
        assert head[name]["shape"] == list(array.shape)
        stored = data[8 + length + begin : 8 + length + end]
        assert stored == array.tobytes()
        assert contents["checksums"][name] == hashlib.sha256(stored).hexdigest()
    assert 8 + length + end == len(data)


def test_the_same_contents_give_the_same_bytes(saved, tmp_path):
    save_file(tmp_path / "again", HEADER, dict(reversed(example_arrays().items())))
    assert (tmp_path / "again").read_bytes() == saved.read_bytes()


def test_arrays_can_be_written_to_and_outlive_their_file(saved):
    """Writing to an array leaves the file alone, and replacing the file leaves the arrays alone."""
    before = saved.read_bytes()
    header, arrays = load_file(saved)
    assert header == HEADER
    assert_same(arrays, example_arrays())
    arrays["psi"][0] = 5.0
    assert saved.read_bytes() == before
    save_file(saved, {}, {"psi": np.zeros(1000)})
    saved.unlink()
    assert (arrays["psi"][0] == 5.0).all()
    assert_same(arrays | {"psi": example_arrays()["psi"]}, example_arrays())


def test_a_file_is_saved_where_no_folder_was(tmp_path):
    save_file(str(tmp_path / "new" / "folder" / "a.rasf"), {"a": 1}, {})
    assert load_file(str(tmp_path / "new" / "folder" / "a.rasf")) == ({"a": 1}, {})


def write_foreign(kind, path):
    if kind == "empty":
        path.write_bytes(b"")
    elif kind == "text":
        path.write_text("beta = -1\n" * 50)
    elif kind == "short":
        path.write_bytes(b"{}")
    elif kind == "zip":
        with zipfile.ZipFile(path, "w") as file:
            file.writestr("psi.npy", b"0" * 500)
    elif kind == "safetensors":
        save_safetensors(example_arrays(), path, metadata={"format": "pt"})
    elif kind == "format name of another":
        save_safetensors(example_arrays(), path, metadata={"format": "rasf", "version": "1"})
    elif kind == "directory":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("empty", "is empty, so not a rasf library"),
        ("text", "is not a rasf library"),
        ("short", "is not a rasf library"),
        ("zip", "is not a rasf library"),
        ("safetensors", "is not a rasf library"),
        ("format name of another", "is "),  # safetensors writes metadata in any order
        ("directory", "is not a file, so not a rasf library"),
        ("pipe", "is not a file, so not a rasf library"),
    ],
)
def test_foreign_files_are_refused(tmp_path, kind, reason):
    path = tmp_path / "foreign.rasf"
    write_foreign(kind, path)
    said = refusal(load_file, path)
    assert said.startswith(f"{path} {reason}")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError) as refused:
        load_file(tmp_path / "none.rasf")
    assert str(refused.value) == f"{tmp_path / 'none.rasf'} does not exist"


@pytest.mark.parametrize("version", [2, 17])
def test_a_future_file_is_refused_by_its_version(saved, version):
    later = saved.read_bytes().replace(b'"version":"1"', b'"version":"%d"' % version, 1)
    saved.write_bytes(later)
    said = refusal(load_file, saved)
    assert said == f"{saved} was written by a newer rasf (format {version}); this one reads format 1"


def test_truncated_and_damaged_files_say_where(saved):
    data = saved.read_bytes()
    arrays_at = 8 + int.from_bytes(data[:8], "little")
    changed = bytearray(data)
    changed[arrays_at + 11] ^= 1  # in psi: nothing before it, as `empty` is empty
    for bytes_now, reason in (
        (data[:-1], "truncated"),
        (data[:arrays_at], "truncated"),
        (data[: arrays_at - 1], "truncated"),
        (data + b"\0", "damaged"),
        (bytes(changed), "array 'psi'"),
        (data.replace(b"FourRoom", b"FourRoon", 1), "head"),
        (b"\xff" * 8 + data[8:], "head"),
    ):
        saved.write_bytes(bytes_now)
        said = refusal(load_file, saved)
        assert said.startswith(f"{saved} is ")
        assert reason in said


def nested(depth):
    """Built without recursion, as it may be deeper than Python's stack."""
    value = 1
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    "header",
    [
        {"a": float("nan")},
        {"a": [1, float("-inf")]},
        {"a": (1, 2)},
        {"a": np.int64(3)},
        {"a": {1: 2}},
        {"a": "\ud83d\ude00"},
        {"a": "\ud83d"},
        {"a": 10**5000},
        nested(100_000),
        {"a": "b" * (8 << 20)},
        [1],
    ],
    ids=range(11),
)
def test_headers_that_would_not_come_back_are_not_written(saved, header):
    before = saved.read_bytes()
    assert refusal(save_file, saved, header, {}).startswith("header ")
    assert saved.read_bytes() == before
    assert os.listdir(saved.parent) == [saved.name]


NOT_STORED = "arrays['a'] must be bool, integers, float16, float32 or float64, got dtype"


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({"a": np.array([None])}, f"{NOT_STORED} object"),
        ({"a": np.array([1j])}, f"{NOT_STORED} complex128"),
        ({"a": np.array(["text"])}, f"{NOT_STORED} <U4"),
        ({"a": np.array(["text"], np.dtypes.StringDType())}, f"{NOT_STORED} StringDType()"),
        ({"a": np.zeros(2, [("x", "f4")])}, f"{NOT_STORED} [('x', '<f4')]"),
        ({"a": [1.0]}, "arrays['a'] must be a numpy array, got list"),
        ({"__metadata__": np.zeros(1)}, "arrays must have names of 1 to 256 characters other than '__metadata__'"),
        ({"": np.zeros(1)}, "arrays must have names of 1 to 256 characters"),
        ({3: np.zeros(1)}, "arrays must have names of 1 to 256 characters"),
    ],
)
def test_arrays_that_cannot_be_kept_are_refused(tmp_path, arrays, sentence):
    said = refusal(save_file, tmp_path / "a", {}, arrays)
    assert said.startswith(sentence)
    assert os.listdir(tmp_path) == []


def test_a_path_that_cannot_be_written_is_named_not_its_temporary_name(tmp_path):
    (tmp_path / "file").touch()
    for path in ("/proc/x.rasf", str(tmp_path / "file" / "x.rasf")):
        with pytest.raises(OSError, match="cannot be written") as refused:
            save_file(path, {}, {})
        assert refused.value.filename == path
        assert refused.value.errno  # which of the reasons it was


def test_a_folder_is_not_overwritten(tmp_path):
    with pytest.raises(ValueError, match="path must"):
        save_file(tmp_path, {}, {})
