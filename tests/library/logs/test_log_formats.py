"""Logs in every format, and what is said of bad ones."""

import gymnasium as gym
import numpy as np
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
        ({"obs": None}, "needs obs"),
        ({"phi": None}, "needs phi"),
        ({"reward": np.zeros(6)}, "knows no array reward"),
        ({"phi": np.zeros(6)}, "give the function phi"),
        ({"phi": np.full((6, 2), np.nan)}, "row 0 of the log is not"),
        ({"obs": np.array([[0], [1], [2], [0], [np.inf], [2]])}, "row 4"),
        ({"actions": np.array([0, 1, 0, 1, 0.5, 1])}, "actions must be whole"),
        ({"actions": np.array([0, 1])}, "flags"),
        ({"terminated": np.array([0, 2, 0, 0, 0, 0])}, "terminated must be 6 flags"),
        ({"next_obs": np.array([[1], [7], [9], [1], [2], [3]])}, "hole after row 1"),
        ({"episode": np.array([0, 0, 0, 1, 0, 0])}, "episode 0 comes back"),
        ({"episode": np.array([0, 0, 0, 0, 0, 0])}, "row 2 of the log ended episode 0"),
        ({"episode": np.array([0, 0, 0.5, 1, 1, 1])}, "episode must be 6 whole"),
        ({name: part[:0] for name, part in arrays().items()}, "one transition at least"),
    ],
)
def test_bad_arrays_get_a_sentence(changes, said):
    with pytest.raises(ValueError, match=said) as caught:
        rasf.Log.read(arrays(**changes))
    assert "\n" not in str(caught.value)


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
        (tmp_path, "no part"),
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
