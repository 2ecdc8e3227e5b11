"""Logs in every format, and what is said of bad ones."""

import io
import tracemalloc
import zipfile
from pathlib import Path

import gymnasium as gym
import numpy as np
import pyarrow
import pyarrow.parquet as parquet
import pytest
from library_worlds import gamble
from test_recorder import as_told, play

import rasf
from rasf.files import load_file, save_file


def arrays(n=6, **changes):
    """Two episodes along 0, 1, 2, the second cut."""
    found = {
        "obs": np.array([[0], [1], [2], [0], [1], [2]][:n]),
        "actions": np.array([0, 1, 0, 1, 0, 1][:n]),
        "phi": np.eye(2)[[0, 1, 0, 0, 1, 1]][:n],
        "next_obs": np.array([[1], [2], [9], [1], [2], [3]][:n]),
        "terminated": np.array([False, False, True, False, False, False][:n]),
        "truncated": np.array([False, False, False, False, False, True][:n]),
    }
    return {name: value for name, value in (found | changes).items() if value is not None}


@pytest.fixture
def recorded(tmp_path):
    with rasf.Recorder(gamble(failing=(2,)), tmp_path / "log") as env:
        told = play(env, 20)
    return rasf.Log.read(tmp_path / "log"), told


@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
def test_a_log_comes_back_from_a_file(recorded, tmp_path, suffix):
    log, told = recorded
    log.save(tmp_path / f"log{suffix}")
    again = rasf.Log.read(tmp_path / f"log{suffix}")
    assert as_told(again) == told
    assert again.environment == log.environment
    np.testing.assert_array_equal(again.failure, log.failure)


def test_arrays_are_a_log():
    log = rasf.Log.read(arrays())
    assert (len(log), log.episodes) == (6, 2)
    assert log.episode.tolist() == [0, 0, 0, 1, 1, 1]
    assert (log.environment.n_actions, log.environment.n_features) == (2, 2)
    assert rasf.Log.read(log) is log


def test_arrays_of_an_environment_are_seen_as_it_shows_them():
    env = gamble(first_action=3)
    log = rasf.Log.read(arrays(3, obs=[0, 1, 1], next_obs=[1, 1, 3], actions=[3, 4, 3], phi=np.zeros((3, 3))), env=env)
    assert log.actions.tolist() == [0, 1, 0]
    assert log.environment.first_action == 3
    assert log.obs.shape == (3, 1)


def test_successors_that_are_missing_are_the_next_rows():
    log = rasf.Log.read(arrays(next_obs=None))
    assert log.next_obs[:, 0].tolist() == [
        1,
        2,
        0,
        1,
        2,
    ]  # after an end anything; the cut episode's last step is left out
    assert log.terminated.tolist() == [False, False, True, False, False]


def test_features_may_come_from_a_function():
    log = rasf.Log.read(arrays(phi=None), phi=lambda obs, action, after, info: [obs[0], action, after[0]])
    assert log.phi.tolist() == [[0, 0, 1], [1, 1, 2], [2, 0, 9], [0, 1, 1], [1, 0, 2], [2, 1, 3]]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"obs": None}, "a log must have obs"),
        ({"phi": None}, "a log must have phi"),
        ({"reward": np.zeros(6)}, "a log has no array reward"),
        ({"phi": np.zeros(6)}, "give the function phi"),
        ({"phi": np.full((6, 2), np.nan)}, "row 0 of the log is not"),
        ({"obs": np.array([[0], [1], [2], [0], [np.inf], [2]])}, "row 4"),
        ({"actions": np.array([0, 1, 0, 1, 0.5, 1])}, "actions must be whole"),
        ({"actions": np.array([0, 1, 0, 1, np.inf, 1])}, "actions must be whole numbers .* row 4 of the log has inf"),
        ({"actions": np.array([0, 1, 0, 1, 10**15, 1])}, "actions must be whole numbers .* row 4"),
        ({"actions": np.array([0, 1, 0, 1, 2**63, 1], np.uint64)}, "actions must be whole numbers .* row 4"),
        ({"actions": [0, [1], [2, 3]]}, "actions must be an array, got a ragged list"),
        ({"actions": np.array([0, 1])}, "flags"),
        ({"obs": 3}, "obs must have a row for each of 6 actions"),
        ({"obs": [[0], [1, 2]]}, "obs must be an array"),
        ({"next_obs": np.zeros((5, 1))}, "next_obs must have a row for each of 6 actions"),
        ({"obs": np.array(["text"] * 6)}, "obs must be numbers"),
        ({"obs": np.full((6, 1), np.longdouble("1e4000"))}, "obs must be finite"),
        ({"obs": np.ma.masked_equal(arrays()["obs"], 2)}, "obs must have no masked entries"),
        ({"terminated": np.ma.masked_equal(arrays()["terminated"], 1)}, "terminated must have no masked entries"),
        ({"phi": np.full((6, 2), 1e308)}, "phi must be finite and at most 1e.100"),
        ({"phi": np.zeros((6, 2, 2))}, "phi must be numbers"),
        ({"episode": np.full(6, np.inf)}, "episode must be 6 whole"),
        ({"episode": np.full(6, 2**63, np.uint64)}, "episode must be 6 whole"),
        ({"episode": np.zeros(5)}, "episode must be 6 whole"),
        ({"terminated": np.array([0, 2, 0, 0, 0, 0])}, "terminated must be 6 flags"),
        (
            {"next_obs": np.array([[1], [7], [9], [1], [2], [3]])},
            "row 1 of the log, in episode 0, has another next_obs",
        ),
        ({"episode": np.array([0, 0, 0, 1, 0, 0])}, "other steps interrupt episode 0"),
        ({"episode": np.array([0, 0, 0, 0, 0, 0])}, "no steps after its end; row 2 ends episode 0"),
        ({"episode": np.array([0, 0, 0.5, 1, 1, 1])}, "episode must be 6 whole"),
        ({name: part[:0] for name, part in arrays().items()}, "at least one transition"),
    ],
)
def test_bad_arrays_get_a_sentence(changes, said):
    with pytest.raises(ValueError, match=said) as caught:
        rasf.Log.read(arrays(**changes))
    assert "\n" not in str(caught.value)


def test_bad_functions_and_limits_get_a_sentence():
    without = arrays(phi=None)
    for phi, said in (
        (3, "phi must be a function"),
        (lambda *step: 1.0, r"features of the same shape \(d,\) for every step, got shape \(\)"),
        (lambda *step: [], r"got shape \(0,\)"),
        (lambda obs, action, after, info: [1.0] * (1 + action), r"got shape \(2,\)"),
        (lambda *step: "x", "must be numbers"),
        (lambda *step: [np.nan], "phi must be finite"),
    ):
        with pytest.raises(ValueError, match=said):
            rasf.Log.read(without, phi=phi)
    one = {name: without[name][:1] for name in ("obs", "actions", "terminated")}
    with pytest.raises(ValueError, match="at least one transition with a known next_obs"):
        rasf.Log.read(one, phi=lambda *step: [1.0])
    for limit in (0, None, "1", 1.5):
        with pytest.raises(ValueError, match="max_bytes must be"):
            rasf.Log.read(without, phi=lambda *step: [1.0], max_bytes=limit)


def test_a_function_sees_observations_of_many_parts():
    obs = {"at": np.array([0, 1, 2]), "load": np.array([[5], [6], [7]])}
    after = {"at": np.array([1, 2, 3]), "load": np.array([[6], [7], [8]])}
    given = {"obs": obs, "next_obs": after, "actions": np.zeros(3, int), "terminated": np.array([0, 0, 1])}
    space = gym.spaces.Dict(at=gym.spaces.Discrete(4), load=gym.spaces.Box(0, 9, (1,), np.int64))
    env = gym.Env()
    env.observation_space, env.action_space = space, gym.spaces.Discrete(2)
    env.reset = lambda seed=None, options=None: ({"at": 0, "load": np.array([5])}, {})
    env.step = lambda action: ({"at": 1, "load": np.array([6])}, 0.0, False, False, {})
    log = rasf.Log.read(given, env=env, phi=lambda o, a, n, i: [o["at"], n["load"][0]])
    assert log.phi.tolist() == [[0, 6], [1, 7], [2, 8]]


# --- what declares more than may be read


def members(path, method=zipfile.ZIP_DEFLATED, **heads):
    """An .npz file of these arrays, each as (type, shape, bytes of zeros that there are)."""
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, (dtype, shape, size) in heads.items():
            head = io.BytesIO()
            described = {"descr": dtype, "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(head, described)
            archive.writestr(f"{name}.npy", head.getvalue() + bytes(size))
    return path


def refused_at_once(path, said, limit=10**6):
    """Refused in one sentence, within a memory that is a small part of what is declared."""
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=rf"\A[^\n]*{said}[^\n]*\Z"):
            rasf.Log.read(path, max_bytes=limit)
        assert tracemalloc.get_traced_memory()[1] < 3_000_000
    finally:
        tracemalloc.stop()


def test_an_npz_file_is_refused_by_what_it_declares(tmp_path):
    path, size = tmp_path / "log.npz", 40_000_000
    for heads, said in (
        (
            {"obs": ("<f8", (size // 8, 1), size)},
            "declares 40,000,000 bytes of numbers, more than max_bytes, 1,000,000",
        ),
        ({"obs": ("|u1", (200_000, 1), 200_000)}, "declares 1,600,000 bytes"),  # as 64-bit numbers
        ({"obs": ("<U0", (10**12,), 0)}, "declares 8,000,000,000,000 bytes"),
        ({"obs": ("<f8", (10**12, 1), 80)}, r"has shape \(1000000000000, 1\) and 80 bytes"),
        ({"obs": ("<f8", (-1,), 80)}, "shape"),
        ({"obs": ("<f8", (0, 2**70), 0)}, "truncated or not an .npz file"),
        ({"junk": ("<f8", (3,), 24)}, "is not a log: a log has no array junk"),
    ):
        refused_at_once(members(path, **heads), said)
    refused_at_once(members(path, zipfile.ZIP_LZMA, obs=("<f8", (3,), 24)), "is not of a kind that numpy writes")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("obs.npy", b"\x93NUMPY\x01\x00\x10\x27" + b"(" * 10_000)
    refused_at_once(path, "truncated or not an .npz file")


def test_a_description_that_is_deep_or_long_gets_a_sentence(tmp_path):
    for text, said in (
        ("[" * 200_000, "its environment is nested too deeply"),
        ('{"a":' * 5_000, "its environment is nested too deeply"),
        ("[]", "is not a log"),
        ("{", "its environment must be JSON"),
        ("9" * 5_000, "is not a log"),
        (" " * (8 << 20) + " {}", "its environment must be JSON of at most"),
    ):
        np.savez_compressed(tmp_path / "log.npz", **arrays(), environment=np.array(text))
        table = pyarrow.table({"actions": [0]}).replace_schema_metadata({"rasf.environment": text})
        parquet.write_table(table, tmp_path / "log.parquet")
        for suffix in (".npz", ".parquet"):
            with pytest.raises(ValueError, match=said if suffix == ".npz" or len(text) < 10**6 else "metadata"):
                rasf.Log.read(tmp_path / f"log{suffix}")


def test_a_parquet_file_is_refused_by_what_it_declares(tmp_path):
    path, n = tmp_path / "log.parquet", 100_000
    flags = {"actions": np.zeros(n, int), "terminated": np.ones(n, bool)}
    for columns, said in (
        ({"obs_0": np.zeros(n), "phi_0": np.zeros(n), **flags}, "declares 3,200,000 bytes of numbers"),
        ({"obs_0": ["x" * 100_000] * 200, "actions": [0] * 200}, "its column 'obs_0' is string, not numbers"),
        (
            {"obs": [[0.0] * 10_000] * 200, "actions": [0] * 200},
            "its column 'obs' is list<element: double>, not numbers",
        ),
        ({"junk": [0]}, "is not a log: a log has no array junk"),
        ({"obs_1": [0]}, "are not consecutive"),
        ({"obs_" + "9" * 30: [0]}, "a log has no array obs_99"),
    ):
        parquet.write_table(pyarrow.table(columns), path)
        assert path.stat().st_size < 300_000
        refused_at_once(path, said)
    path.write_bytes(b"PAR1" + bytes(100) + (2**31 - 1).to_bytes(4, "little") + b"PAR1")
    refused_at_once(path, "its metadata must have at most")


def test_a_folder_is_refused_by_the_size_of_its_parts(recorded, tmp_path):
    with open(tmp_path / "log" / "part-000001.rasf", "wb") as part:
        part.truncate(2**40)  # a hole of the file system
    with pytest.raises(ValueError, match=r"log declares 1,099,511,\d+,\d+ bytes of numbers"):
        rasf.Log.read(tmp_path / "log")


def test_a_limit_may_be_raised(recorded, tmp_path):
    log = recorded[0]
    for suffix in (".npz", ".parquet"):
        log.save(tmp_path / f"log{suffix}")
    for path in (tmp_path / "log.npz", tmp_path / "log.parquet", tmp_path / "log"):
        with pytest.raises(ValueError, match="give a larger max_bytes"):
            rasf.learn_from(path, tasks=1, max_bytes=100)
        assert len(rasf.Log.read(path, max_bytes=10**6)) == len(log)


def test_tables_that_would_be_too_large_get_a_sentence():
    """A number of actions that no table holds; what the log covers can still be said."""
    log = rasf.Log.read(arrays(actions=np.array([0, 1, 0, 1, 0, 2**30])))
    assert log.coverage().untried == pytest.approx(1.0, abs=1e-6)
    with pytest.raises(ValueError, match=r"1,073,741,825 actions .* number the actions of a log without gaps"):
        rasf.learn_from(log, tasks=1)


def test_a_log_of_another_environment_is_refused(recorded):
    with pytest.raises(ValueError, match="another environment than FrozenLake"):
        rasf.Log.read(recorded[0], env="FrozenLake-v1", phi=lambda *step: [1.0, 0.0, 0.0])
    with pytest.raises(ValueError, match="actions must be 0 to 1; row 0 of the log has 7"):
        rasf.Log.read(arrays(1, obs=[0], next_obs=[1], phi=np.zeros((1, 3)), actions=[7]), env=gamble())


@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
def test_a_file_that_was_cut_short_gets_a_sentence(recorded, tmp_path, suffix):
    path = tmp_path / f"log{suffix}"
    recorded[0].save(path)
    whole = path.read_bytes()
    for length in (0, 10, len(whole) // 2, len(whole) - 20):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match="truncated") as caught:
            rasf.Log.read(path)
        assert "\n" not in str(caught.value)


def test_a_part_that_is_damaged_or_of_others_gets_a_sentence(recorded, tmp_path):
    part = tmp_path / "log" / "part-000000.rasf"
    header, held = load_file(part)
    part.write_bytes(part.read_bytes()[:-5])
    with pytest.raises(ValueError, match="truncated or damaged"):
        rasf.Log.read(tmp_path / "log")
    save_file(part, {"kind": "other"}, held)
    with pytest.raises(ValueError, match="not a part of a log"):
        rasf.Log.read(tmp_path / "log")
    save_file(part, header, {name: array for name, array in held.items() if name != "action"})
    with pytest.raises(ValueError, match="is not a log"):
        rasf.Log.read(tmp_path / "log")
    save_file(part, header, held)
    header["environment"]["n_actions"] = 7
    save_file(tmp_path / "log" / "part-000001.rasf", header, held)
    with pytest.raises(ValueError, match="n_actions of its parts differ"):
        rasf.Log.read(tmp_path / "log")


def test_what_is_no_log_gets_a_sentence(tmp_path):
    (tmp_path / "log.txt").write_text("")
    (tmp_path / "log.npz").write_bytes(b"")
    np.savez(tmp_path / "pickled.npz", obs=np.array([{}], dtype=object))
    for given, said in (
        (tmp_path / "none", "does not exist"),
        (tmp_path, "no file part"),
        (tmp_path / "log.txt", r"\.npz or \.parquet"),
        (tmp_path / "pickled.npz", "not an .npz"),
        (3, "data must be"),
        ("minari:no/such-v0", "no/such-v0 cannot be read"),
    ):
        with pytest.raises((ValueError, FileNotFoundError), match=said):
            rasf.Log.read(given)
    with pytest.raises(ValueError, match="path must end"):
        rasf.Log.read(arrays()).save(tmp_path / "log.csv")


@pytest.fixture
def dataset(tmp_path, monkeypatch):
    """A Minari dataset of FrozenLake, and its transitions."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    minari = pytest.importorskip("minari")
    env, rng, told = minari.DataCollector(gym.make("FrozenLake-v1", map_name="4x4")), np.random.default_rng(0), []
    for n in range(5):
        obs, _ = env.reset(seed=n)
        over = False
        while not over:
            action = int(rng.integers(4))
            after, _, terminated, truncated, _ = env.step(action)
            told.append((obs, action, (1.0, float(after == 15)), after, terminated, n))
            obs, over = after, terminated or truncated
    with pytest.warns(UserWarning, match="is set to None"):  # no author, no link
        env.create_dataset("rasf/lake-v0")
    env.close()
    return told


@pytest.mark.filterwarnings("ignore:Implicitly cleaning up:ResourceWarning")  # of Minari's collector
def test_a_dataset_of_minari_is_a_log(dataset):
    def phi(obs, action, after, info):
        return [1.0, float(after == 15)]

    log = rasf.Log.read("minari:rasf/lake-v0", phi=phi)
    assert as_told(log) == dataset
    assert (log.environment.id, log.environment.phi) == ("FrozenLake-v1", "phi")
    assert as_told(rasf.Log.read("minari:rasf/lake-v0", env="FrozenLake-v1", phi=phi)) == dataset
    with pytest.raises(ValueError, match="reward is one number"):
        rasf.Log.read("minari:rasf/lake-v0")
    with pytest.raises(ValueError, match=r"same shape \(d,\)"):
        rasf.Log.read("minari:rasf/lake-v0", phi=lambda *step: 1.0)


@pytest.mark.filterwarnings("ignore:Implicitly cleaning up:ResourceWarning")  # of Minari's collector
def test_a_dataset_of_minari_is_refused_by_what_it_declares(dataset, tmp_path):
    h5py = pytest.importorskip("h5py")
    with pytest.raises(ValueError, match=r"bytes of numbers, more than max_bytes, 1,000"):
        rasf.Log.read("minari:rasf/lake-v0", phi=lambda *step: [1.0], max_bytes=1_000)
    (data,) = Path(tmp_path).rglob("main_data.hdf5")
    with h5py.File(data, "a") as file:
        del file["episode_2/rewards"]
        file["episode_2"].create_dataset("rewards", shape=(10**12,), dtype="f8", chunks=True)
    with pytest.raises(ValueError, match=r"declares 8,000,[\d,]+ bytes of numbers"):
        rasf.Log.read("minari:rasf/lake-v0", phi=lambda *step: [1.0])
    with h5py.File(data, "a") as file:
        del file["episode_2/rewards"]
        file["episode_2/rewards"] = h5py.SoftLink("/episode_2")
    with pytest.raises(ValueError, match="is truncated or not a Minari dataset: its groups are nested"):
        rasf.Log.read("minari:rasf/lake-v0", phi=lambda *step: [1.0])
