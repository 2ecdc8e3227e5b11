"""The counts of `rasf-model` and of logs as a model: exact, saved, and without actions that were never tried."""

import gymnasium as gym
import numpy as np
import pytest
from library_worlds import gamble, random_world

import rasf
from rasf import MeanVariance

NEUTRAL, AVERSE = MeanVariance(0.0), MeanVariance(-1.0)
TASKS = [[-0.2, 1.0, -3.0], [0.0, 1.0, 0.0]]
KEYS = np.arange(3, dtype=float)[:, None]


def learned(**options):
    given = {
        "agent": "rasf-model",
        "tasks": TASKS,
        "steps_per_task": 400,
        "model": True,
        "prior": 0,
        "epsilon": 0.5,
        "margin": 9.0,
    }
    return rasf.learn(gamble, **given | options)


def looking(library, ahead):
    return library.rule(TASKS[0], NEUTRAL, ahead=ahead).sources


def test_counts_are_the_model_and_change_nothing():
    """Tables are exact on the counts, at every h; so are the probabilities of the counts, which are shares of tries."""
    library = learned()
    assert library.model.tried.shape == (3, 2)
    falls = library.model.mdp
    row = int(np.flatnonzero((library.model.keys == [0.0]).all(axis=1))[0]) * 2 + 1
    chances = falls.probability[falls.indptr[row] : falls.indptr[row + 1]]
    assert chances.max() == pytest.approx(0.5, abs=0.15)
    plain = library.sources.scores(KEYS, np.array(TASKS[0]), AVERSE)
    for ahead in (1, 3, 10):
        found = looking(library, ahead).scores(KEYS, np.array(TASKS[0]), AVERSE)
        tried = plain.values > -np.inf
        np.testing.assert_array_equal(found.values > -np.inf, tried)
        np.testing.assert_allclose(found.values[tried], plain.values[tried], atol=1e-4)
    for risk in (NEUTRAL, AVERSE):
        assert library.actor(TASKS[0], risk, ahead=4).act(0) == library.act(0, TASKS[0], risk)
    report = library.evaluate(gamble, TASKS[0], AVERSE, 4, ahead=3, model="learned")
    assert report.describe()["ahead"] == 3


def test_counts_come_back_from_a_file(tmp_path):
    library = learned(prior=20)
    library.save(tmp_path / "a.rasf")
    again = rasf.load(tmp_path / "a.rasf")
    again.save(tmp_path / "b.rasf")
    assert (tmp_path / "a.rasf").read_bytes() == (tmp_path / "b.rasf").read_bytes()
    w = np.array(TASKS[0])
    pair = [looking(one, 3).scores(KEYS, w, AVERSE).values for one in (library, again)]
    np.testing.assert_array_equal(*pair)
    np.testing.assert_array_equal(rasf.merge([learned(model=False), library]).model.keys, library.model.keys)
    assert learned(model=False).model is None


def test_logs_keep_their_counts(tmp_path):
    env = rasf.Recorder(random_world(3, S=5, A=3), tmp_path / "log")
    rng = np.random.default_rng(0)
    for episode in range(60):
        env.reset(seed=episode)
        over = False
        while not over:
            _, _, terminated, truncated, _ = env.step(int(rng.integers(2)))  # action 2 is never tried
            over = terminated or truncated
    env.close()
    options = {"tasks": [[1.0, 0.0], [0.3, -1.0]], "resamples": 0, "model": True, "prior": 0}
    library = rasf.learn_from(str(tmp_path / "log"), **options)
    assert not library.model.tried[:, 2].any()
    w, keys = np.array([0.5, 0.5]), library.model.keys
    plain, found = library.sources.scores(keys, w, NEUTRAL), library.rule(w, NEUTRAL, ahead=4).sources
    values = found.scores(keys, w, NEUTRAL).values
    assert (values[:, :, 2] == -np.inf).all()
    np.testing.assert_allclose(values[..., :2], plain.values[..., :2], atol=1e-4)
    library.save(tmp_path / "a.rasf")
    assert rasf.load(tmp_path / "a.rasf").model.mdp.gamma == library.gamma


@pytest.mark.parametrize("damage", ["indptr", "successor", "tried", "gamma", "missing", "kind"])
def test_damaged_files_get_a_sentence(damage, tmp_path):
    from rasf import files

    learned().save(tmp_path / "a.rasf")
    header, arrays = files.load_file(tmp_path / "a.rasf")
    arrays = dict(arrays)
    if damage == "indptr":
        arrays["model/indptr"] = arrays["model/indptr"][::-1]
    elif damage == "successor":
        arrays["model/successor"] = arrays["model/successor"] + 100
    elif damage == "tried":
        arrays["model/tried"] = arrays["model/tried"][:1]
    elif damage == "missing":
        del arrays["model/keys"]
    else:
        header["model"][damage] = "none"
    files.save_file(tmp_path / "b.rasf", header, arrays)
    with pytest.raises(ValueError, match=r"is not a policy library that this version of rasf can read: [^\n]*$"):
        rasf.load(tmp_path / "b.rasf")


def test_an_environment_is_still_its_own_model():
    assert isinstance(gamble(), gym.Env)
    report = learned().evaluate(gamble, TASKS[0], AVERSE, 3, ahead=2)
    assert report.describe()["particles"] > 0  # copies of the environment, not the counts
