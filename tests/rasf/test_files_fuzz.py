"""The loader against 10,000 damaged files and forged ones: refused in one line, within the memory of the file itself.

Damage leaves the checksums as they were; every byte of a file is under one, so no damaged file may load. A forger
computes the checksums again; then the loader may only refuse, or give arrays that are the file's bytes, as declared.
"""

import hashlib
import json
import re
import tracemalloc

import numpy as np
import pytest

from rasf.files import load_file, save_file

DIGEST = re.compile(rb'(?<="sha256":")[0-9a-f]{64}')
NASTY = [0, 1, -1, 3, 2**31, 2**53, 2**62, 2**63, 2**64, 10**30, 10**4000, 1.0, 1e300, 0.5, True, False, None]
NASTY += ["", "F64", "F32", "I64", "U8", "BOOL", "BF16", "F99", "__metadata__", [], [[]], {}, "1", "a\nb", "\ud800"]
NASTY += [[0, 2**62], [2**32, 2**32], [-1, -6], [0] * 65, [1] * 100, [6], [3, 2], [2, 3, 1], [0, 8], [8, 0], [2**40]]


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    path = tmp_path_factory.mktemp("fuzz") / "original.rasf"
    rng = np.random.default_rng(1)
    arrays = {"psi": rng.normal(size=(2, 3)), "action": np.array([1, 0, 2], np.int32), "seen": np.array([True, False])}
    arrays["other"] = rng.normal(size=6).astype(np.float32)
    save_file(path, {"environment": "probe-v0", "tasks": [[1.0, -0.5]], "gamma": 0.9}, arrays)
    return path.read_bytes()


def split(data):
    """The entries of the head and the arrays' bytes."""
    length = 8 + int.from_bytes(data[:8], "little")
    return json.loads(data[8:length]), data[length:]


def join(entries, body, signed):
    """A file of these entries, with or without its checksum computed again."""
    text = entries if isinstance(entries, bytes) else json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 8) % 64)
    head = len(text).to_bytes(8, "little") + text
    if signed:
        digest = hashlib.sha256(DIGEST.sub(b"0" * 64, head, count=1)).hexdigest().encode()
        head = DIGEST.sub(digest, head, count=1)
    return head + body


def refused(path, data):
    """Whether loading is refused, in one line that names the path."""
    path.unlink(missing_ok=True)  # ext4 flushes a file that is written over, which takes longer than all the rest
    path.write_bytes(data)
    try:
        load_file(path)
    except ValueError as refusal:
        sentence = str(refusal)
    else:
        return False
    assert re.fullmatch(r"[^\n]+", sentence)
    assert sentence.startswith((f"{path} is ", f"{path} was written by a newer rasf"))
    return True


def flip_bits(data, rng):
    changed = bytearray(data)
    for at in rng.integers(len(data), size=rng.integers(1, 4)):
        changed[at] ^= 1 << rng.integers(8)
    return bytes(changed)


def overwrite(data, rng):
    at, length = rng.integers(len(data)), rng.integers(1, 40)
    return data[:at] + rng.bytes(min(length, len(data) - at)) + data[at + length :]


def truncate(data, rng):
    return data[: rng.integers(len(data))]


def insert(data, rng):
    at = rng.integers(len(data) + 1)
    return data[:at] + rng.bytes(rng.integers(1, 70)) + data[at:]


def delete(data, rng):
    at = rng.integers(len(data))
    return data[:at] + data[at + rng.integers(1, 70) :]


def swap_blocks(data, rng):
    size = int(rng.integers(1, 33))
    first, second = sorted(size * rng.choice(len(data) // size, size=2, replace=False))
    blocks = data[first : first + size], data[second : second + size]
    return data[:first] + blocks[1] + data[first + size : second] + blocks[0] + data[second + size :]


def repeat_block(data, rng):
    first, second = np.sort(rng.integers(len(data) + 1, size=2))
    return data[:second] + data[first:second] + data[second:]


def edit_length(data, rng):
    length = int.from_bytes(data[:8], "little")
    lengths = [0, 1, length - 1, length + 1, length - 64, length + 64, len(data), 2**31, 2**32, 2**63, 2**64 - 1]
    chosen = [*lengths, int(rng.integers(2**63)), int(rng.integers(2 * len(data)))]
    return chosen[rng.integers(len(chosen))].to_bytes(8, "little") + data[8:]


def edit_text(data, rng):
    """One digit, letter or sign of the head in the place of another."""
    at = int(rng.integers(8, len(data) - len(split(data)[1])))
    return data[:at] + b'0123456789abcdefF",:{}[]\\ -.e'[(k := int(rng.integers(29))) : k + 1] + data[at + 1 :]


def edit_entries(data, rng):
    """Something else in the place of a shape, an offset, a type, a checksum, a name; or no such thing."""
    entries, body = split(data)
    label, names = entries["__metadata__"], ["psi", "action", "seen", "other"]
    name, nasty = names[rng.integers(4)], NASTY[rng.integers(len(NASTY))]
    contents = json.loads(label["contents"])
    match rng.integers(9):
        case 0:
            entries[name][("dtype", "shape", "data_offsets")[rng.integers(3)]] = nasty
        case 1:
            entries[name]["shape"][rng.integers(len(entries[name]["shape"]))] = nasty
        case 2:
            entries[name]["data_offsets"][rng.integers(2)] = nasty
        case 3:
            del entries[name][("dtype", "shape", "data_offsets")[rng.integers(3)]]
        case 4:
            contents["checksums"][name] = nasty
        case 5:
            del contents["checksums"][name]
        case 6:
            entries[name] = nasty
        case 7:
            del entries[name]
        case 8:
            other = names[rng.integers(4)]
            entries[name]["data_offsets"], entries[other]["data_offsets"] = (
                entries[other]["data_offsets"],
                entries[name]["data_offsets"],
            )
    label["contents"] = json.dumps(contents, separators=(",", ":"))
    return join(entries, body, signed=False)


DAMAGES = [flip_bits, overwrite, truncate, insert, delete, swap_blocks, repeat_block]
DAMAGES += [edit_length, edit_text, edit_entries]


@pytest.mark.parametrize("damage", DAMAGES)
def test_no_damaged_file_loads(original, tmp_path, damage):
    """A thousand of each kind; a mutation that changes no byte must load instead."""
    rng = np.random.default_rng(DAMAGES.index(damage))
    path, changed = tmp_path / "damaged.rasf", 0
    for index in range(1000):
        data = damage(original, rng)
        changed += data != original
        assert refused(path, data) == (data != original), f"{damage.__name__} {index}"
    assert changed > 800


def test_no_bit_of_a_file_can_flip(original, tmp_path):
    changed = bytearray(original)
    for at in range(len(original)):
        changed[at] ^= 1 << at % 8
        assert refused(tmp_path / "flipped.rasf", changed), at
        changed[at] ^= 1 << at % 8


def forge(data, rng):
    return join(*split(edit_entries(data, rng)), signed=True)


def test_forged_heads_give_nothing_but_the_bytes_of_the_file(original, tmp_path):
    """With checksums computed again: memory stays within the file's, and what loads is what was declared."""
    rng = np.random.default_rng(100)
    path, loaded = tmp_path / "forged.rasf", 0
    bound = 100_000 + 40 * len(original)  # parsed JSON; integers of thousands of digits
    refused(path, original)
    tracemalloc.start()
    for _ in range(2000):
        data = forge(original, rng)
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        is_refused = refused(path, data)
        assert tracemalloc.get_traced_memory()[1] - before < bound
        if not is_refused:
            loaded += 1
            header, arrays = load_file(path)
            entries, body = split(data)
            assert header == json.loads(entries.pop("__metadata__")["contents"])["header"]
            assert b"".join(arrays[name].tobytes() for name in entries) == body
            assert all(list(arrays[name].shape) == entry["shape"] for name, entry in entries.items())
    tracemalloc.stop()
    assert 0 < loaded < 200  # another shape of the same size, declared by the forger, is a valid file


def header_text(text):
    """A forger's file whose saved header is this text."""
    contents = '{"checksums":{},"header":' + text + "}"
    label = {"format": "rasf", "version": "1", "sha256": "0" * 64, "contents": contents}
    return join({"__metadata__": label}, b"", signed=True)


def test_forged_json_is_refused(subtests, tmp_path):
    """Too deep, not finite, doubled, or spelled in another way."""
    for text in [
        '{"a":' * 100_000 + "1" + "}" * 100_000,
        '{"a":NaN}',
        '{"a":-Infinity}',
        '{"a":1e999}',
        '{"a":' + "9" * 5000 + "}",
        '{"a":1,"a":2}',
        '{"a": 1}',
        '{"a":1.50}',
        '{"a":"\\ud800"}',
        "[1]",
        "null",
        '{"a":1},"more":1',
        "",
    ]:
        with subtests.test(text=text):
            assert not refused(tmp_path / "a", header_text('{"a":1.5}'))
            assert refused(tmp_path / "a", header_text(text))


def test_forged_heads_are_refused_or_say_the_same(original, tmp_path):
    entries, body = split(original)
    text = json.dumps(entries, separators=(",", ":")).encode()
    assert not refused(tmp_path / "a", join(text, body, signed=True))
    doubled = text.replace(b'"seen":{', b'"seen":{"dtype":"U8",', 1)
    for forged in (doubled, text[:-1], text + b"x", text + b"\xff"):
        assert refused(tmp_path / "a", join(forged, body, signed=True))
    (tmp_path / "plain").write_bytes(original)
    (tmp_path / "spaced").write_bytes(join(text.replace(b'"seen":{', b'"seen": {', 1), body, signed=True))
    (header, arrays), (same, others) = load_file(tmp_path / "plain"), load_file(tmp_path / "spaced")
    assert header == same  # another spelling with right checksums says the same
    assert all(np.array_equal(arrays[name], others[name]) for name in arrays.keys() | others.keys())


def test_bytes_that_are_neither_true_nor_false_are_refused(tmp_path):
    """numpy would trust them, and count with them."""
    save_file(tmp_path / "a", {}, {"seen": np.array([1, 2], np.uint8)})
    entries, body = split((tmp_path / "a").read_bytes())
    entries["seen"]["dtype"] = "BOOL"
    path = tmp_path / "forged"
    assert refused(path, join(entries, body, signed=True))
    with pytest.raises(ValueError, match="'seen'"):
        load_file(path)


@pytest.mark.parametrize("shape", [[0, 2**60], [2**31, 2**32, 0], [0, 10**30], [0] * 65])
def test_forged_shapes_of_nothing_are_refused(tmp_path, shape):
    """No bytes are declared, so no size contradicts the file; numpy could not build the array."""
    save_file(tmp_path / "a", {}, {"psi": np.zeros((0, 3))})
    entries, body = split((tmp_path / "a").read_bytes())
    for now, expected in ([0, 2**59], False), (shape, True):
        entries["psi"]["shape"] = now
        assert refused(tmp_path / "a", join(entries, body, signed=True)) == expected
