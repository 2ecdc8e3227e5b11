"""Libraries of policies with continuous actions: learning, acting, files, growth, logs, and what is refused."""

import functools
import json

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from lever_world import Lever, best, strength
from library_worlds import gamble, random_world
from probe_worlds import Push

import rasf
from rasf import CVaR, Entropic, MeanVariance
from rasf.deep import fused
from rasf.library import checkpoint
from rasf.library.networks.actor_policies import ActorPolicies

NEUTRAL, AVERSE = MeanVariance(0.0), MeanVariance(-2.0)
TASKS = [[1.0, 0.5, 0.3], [0.5, 1.0, 0.0]]
SMALL = {"widths": (8,), "batch": 8, "warmup": 30, "updates": 0.5, "target_period": 10, "average": 10}
OPTIONS = {"tasks": TASKS, "risk": [NEUTRAL, AVERSE], "steps_per_task": 80, "seed": 3, **SMALL}
W = [0.7, 0.8, 0.2]
SEEN = np.random.default_rng(0).uniform(-1, 1, (7, 2)).astype(np.float32)
five = functools.partial(Lever, 5)


def learned(env=five, **options):
    return rasf.learn(env, **OPTIONS | options)


@pytest.fixture(scope="module")
def library():
    return learned()


def bits(library):
    return library.sources.arrays() | {f"history {name}": part for name, part in library.history.items()}


def assert_same(one, other):
    first, second = bits(one), bits(other)
    assert first.keys() == second.keys()
    for name, array in first.items():
        np.testing.assert_array_equal(array, second[name], err_msg=name)


# --- learning


def test_learned_policies_are_near_the_best_and_averse_ones_take_less_risk():
    """For two unseen tasks: almost the best mean, and by averse acting the better value of the risk."""
    averse, tasks = MeanVariance(-30.0), [[0.5, 1.0, 0.3], [1.5, 1.0, 0.3]]
    found = rasf.learn(
        Lever, tasks=tasks, risk=[NEUTRAL, averse], steps_per_task=1_000, seed=1, widths=(32, 32), shared=False,
        batch=128, updates=1, learning_rate=1e-2, actor_learning_rate=2e-3, warmup=300, average=300, target_period=100,
    )  # fmt: skip
    obs = np.array([(side, x) for side in (-1.0, 1.0) for x in np.linspace(-0.8, 0.8, 5)], np.float32)
    side = obs[:, 0]
    for w in ([1.2, 1.0, 0.3], [0.7, 1.0, 0.3]):
        reached = {}
        for risk in (NEUTRAL, averse):
            u = strength(found.act(obs, w, risk))
            mean, variance = w[0] * side * u - w[1] * u**2, w[2] ** 2 * u**2
            reached[risk] = mean.mean(), np.sqrt(variance).mean(), (mean + risk.beta / 2 * variance).mean()
            most = np.array([best(w, risk.beta, one) for one in side])
            assert np.abs(u - most).mean() < 0.3
        assert reached[NEUTRAL][0] > w[0] ** 2 / (4 * w[1]) - 0.12  # random actions: -1 / 3
        assert reached[averse][1] < 0.75 * reached[NEUTRAL][1]
        of_neutral = reached[NEUTRAL][0] + averse.beta / 2 * w[2] ** 2 * np.square(strength(found.act(obs, w))).mean()
        assert reached[averse][2] > of_neutral


def test_the_agent_is_chosen_with_a_note(library):
    assert library.agent == "rasftd3"
    assert library.notes == ("agent rasftd3 was chosen because actions are continuous (a Box of size 2)",)
    assert type(library.sources) is ActorPolicies
    assert len(library.policies) == library.sources.policies == library.sources.n_actions == 4
    assert (library.sources.action_size, library.environment.n_actions) == (2, 0)
    assert library.sources.limit == 5  # the time limit that the environment declares
    assert np.isfinite(library.history["return"]).all()
    named = learned(agent="rasftd3")
    assert named.notes == ()
    assert_same(named, library)


def test_the_same_seed_gives_the_same_bits(library):
    assert_same(learned(), library)
    assert_same(learned(five()), library)
    assert not np.array_equal(bits(learned(seed=4))["actor/heads/weight"], bits(library)["actor/heads/weight"])


def test_tasks_with_different_numbers_of_weights_are_learned():
    """The score of a policy whose weights are zero has a gradient too."""
    tasks = [[1.0, 0.5, 0.3], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    found = learned(tasks=tasks, extra_tasks=[[0.0, 1.0, 0.0]])
    assert len(found.policies) == 8
    assert all(np.isfinite(part).all() for part in found.sources.arrays().values())
    assert np.isnan(found.history["return"]).tolist() == [False] * 3 + [True] + [False] * 3 + [True]


def test_agents_fit_the_actions_of_the_environment():
    phi = lambda obs, action, after, info: [1.0, after[0]]  # noqa: E731
    for agent in ("rasfql", "sfql", "rasf-model", "rasfc51", "sfdqn", "sfdqn-residual", "rasfdqn"):
        with pytest.raises(ValueError, match=rf"\(a Box of size 2\), such as rasftd3; got {agent}$"):
            learned(agent=agent, risk=NEUTRAL)
    for env, more in ((gamble, {}), ("CartPole-v1", {"phi": phi})):
        with pytest.raises(ValueError, match=r"environment's actions \(Discrete\), such as .*rasfdqn.*; got rasftd3$"):
            learned(env, agent="rasftd3", tasks=[[1.0, 0.0, 0.0]], **more)
    with pytest.raises(ValueError, match=r"environment's actions \(Discrete\)"):
        learned(gym.vector.SyncVectorEnv([lambda: gym.make("CartPole-v1")]), agent="rasftd3", phi=phi, tasks=[[1, 1]])
    with pytest.raises(ValueError, match=r"environment's actions \(a Box of size 2\)"):
        learned(Push(), agent="rasfdqn")
    with pytest.raises(ValueError, match="rasftd3"):
        learned(risk=Entropic(-1.0))
    for name, value, words in (
        ("n_step", 3, "n_step must be 1 for continuous actions, got 3"),
        ("objects", 2, "objects must be 0 for continuous actions, got 2"),
        ("noise", -1, "noise must"),
        ("atoms", 7, "settings must"),
    ):
        with pytest.raises(ValueError, match=words):
            learned(**{name: value})
    with pytest.raises(ValueError, match="settings must"):
        rasf.learn(random_world(0), tasks=[[1.0, 0.0]], agent="rasfdqn", noise=0.1)


def test_infinite_bounds_of_actions_are_refused_before_training():
    env = Lever()
    env.action_space = spaces.Box(-np.inf, np.inf, (2,))
    with pytest.raises(ValueError, match="must have finite bounds") as refused:
        learned(env)
    assert "\n" not in str(refused.value)


# --- acting


def test_one_and_many_observations_get_the_same_actions_of_the_environment(library):
    space = Lever().action_space
    for risk in (NEUTRAL, AVERSE):
        for t in (0, 3):
            many = library.act(SEEN, W, risk, t=t)
            assert (many.shape, many.dtype) == ((7, 2), np.float32)
            for obs, expected in zip(SEEN, many, strict=True):
                one = library.act(obs, W, risk, t=t)
                assert isinstance(one, np.ndarray)
                assert space.contains(one)
                np.testing.assert_allclose(one, expected, atol=2e-4)
    assert len(np.unique(many, axis=0)) > 1


@pytest.mark.parametrize("dtype", [np.float64, np.int16])
def test_actions_are_of_the_type_of_the_space(dtype):
    found = learned(functools.partial(Lever, 5, dtype=dtype))
    one = found.act(SEEN[0], W)
    assert one.dtype == dtype
    assert Lever(dtype=dtype).action_space.contains(one)
    assert found.act(SEEN, W).dtype == dtype


def test_scores_are_of_proposals(library):
    for risk in (NEUTRAL, AVERSE):
        many = library.scores(SEEN, W, risk)
        assert many.values.shape == many.mean.shape == many.std.shape == (4, 7, 4)
        np.testing.assert_array_equal(many.action, library.act(SEEN, W, risk))
        np.testing.assert_array_equal(many.source, many.values.max(axis=2).argmax(axis=0))
        proposed = library.sources.proposals(library.encode(SEEN))
        taken = many.values.max(axis=0).argmax(axis=1)
        np.testing.assert_allclose((proposed[np.arange(7), taken] + 1) * [2, 10] + [-1, 20], many.action, atol=1e-5)
        one = library.scores(SEEN[0], W, risk)
        assert one.values.shape == (4, 4)
        assert one.action.shape == (2,)
        np.testing.assert_allclose(one.values, many.values[:, 0], atol=1e-4)
    assert (many.values <= many.mean).all()
    np.testing.assert_allclose(library.scores(SEEN, W).values, many.mean, atol=1e-6)


def test_limits_choose_among_proposals(library):
    """A limit on the effort, which is a cost: the less effort, the larger the price."""
    free = library.scores(SEEN, W)
    tight = library.scores(SEEN, W, limits={"chance": -10.0})
    assert set(tight.prices) == {"chance"}
    assert tight.action.shape == (7, 2)
    assert (tight.prices["chance"] >= 0).all()
    assert any(tight.remarks)
    loose = library.act(SEEN, W, limits={"chance": 1e6})
    np.testing.assert_array_equal(loose, free.action)
    one = library.act(SEEN[0], W, limits={"chance": -10.0})
    np.testing.assert_allclose(one, tight.action[0], atol=1e-4)
    actor = library.actor(W, limits={"chance": 0.1})
    assert Lever().action_space.contains(actor.act(SEEN[0]))


@pytest.mark.parametrize("options", [{}, {"static": True}, {"limits": {"chance": 1.0}}], ids=str)
def test_actors_keep_the_state_of_episodes(library, options):
    env, risk = Lever(5), CVaR(0.3) if "static" in options else AVERSE
    actor, obs = library.actor(W, risk, **options), env.reset(seed=1)[0]
    for _ in range(5):
        action = actor.act(obs)
        assert isinstance(action, np.ndarray)
        obs, phi, *_ = env.step(action)
        actor.observe(float(phi @ W))
    several = library.actor(W, risk, **options)
    actions = several.act(SEEN)
    assert (actions.shape, actions.dtype) == ((7, 2), np.float32)


def test_evaluation_and_comparison_are_episodes_of_the_greedy_policy(library):
    report = library.evaluate(five, W, AVERSE, episodes=6, seed=2)
    again = library.evaluate(Lever(5), W, AVERSE, 6, seed=2)
    np.testing.assert_allclose(report.returns, again.returns, atol=1e-5)
    assert report.lengths.tolist() == [5] * 6
    ways = {"discount_aware": True}, {"limits": {"chance": 0.5}}, {"prices": {"effort": 1}}
    for risk, options in ((CVaR(0.3), {"static": True}), *((AVERSE, way) for way in ways)):
        found = library.evaluate(five, W, risk, episodes=3, **options)
        assert np.isfinite(found.returns).all()
    compared = library.compare(five, W, [NEUTRAL, AVERSE], episodes=6, seed=2)
    name = next(name for name in compared.reports if name != "neutral")
    np.testing.assert_array_equal(compared.reports[name].returns, report.returns)


def test_evaluation_by_hand(library):
    """Every step of a report takes the library's action at this time of the episode."""
    report = library.evaluate(five, W, episodes=2, seed=9)
    played = []

    class Watched(Lever):
        def step(self, action):
            played.append((self._last, self.time, np.array(action)))
            return super().step(action)

        def _obs(self):
            self._last = super()._obs()
            return self._last

    watched = library.evaluate(functools.partial(Watched, 5), W, episodes=2, seed=9)
    np.testing.assert_array_equal(watched.returns, report.returns)
    assert len(played) == 10
    for obs, t, action in played:
        np.testing.assert_allclose(library.act(obs, W, t=t), action, atol=2e-4)


def test_calibration(library, tmp_path):
    found = learned()
    found.calibrate(five, 60, tasks=4, risks=[NEUTRAL, AVERSE], seed=1)
    assert found.calibration.episodes == 60
    assert found.scores(SEEN[0], W).bounds is not None
    found.save(tmp_path / "a.rasf")
    again = rasf.load(tmp_path / "a.rasf")
    np.testing.assert_array_equal(again.calibration.error, found.calibration.error)
    report = again.evaluate(five, W, episodes=4, limits={"chance": 0.5})
    assert report.bounds is not None


# --- files


def test_a_saved_library_acts_with_the_same_bits(library, tmp_path):
    library.save(tmp_path / "a.rasf")
    again = rasf.load(tmp_path / "a.rasf")
    assert_same(again, library)
    assert again.describe() == library.describe() == json.loads(json.dumps(library.describe()))
    assert again.environment == library.environment
    for risk in (NEUTRAL, AVERSE):
        np.testing.assert_array_equal(again.act(SEEN, W, risk), library.act(SEEN, W, risk))
        np.testing.assert_array_equal(again.act(SEEN[0], W, risk), library.act(SEEN[0], W, risk))
        np.testing.assert_array_equal(again.scores(SEEN, W, risk).values, library.scores(SEEN, W, risk).values)
    np.testing.assert_array_equal(
        again.evaluate(five, W, episodes=3).returns, library.evaluate(five, W, episodes=3).returns
    )


def test_half_precision_is_rounded_once(library, tmp_path):
    library.save(tmp_path / "whole.rasf")
    library.save(tmp_path / "half.rasf", precision="half")
    again = rasf.load(tmp_path / "half.rasf")
    for name, array in library.sources.arrays().items():
        np.testing.assert_array_equal(again.sources.arrays()[name], array.astype(np.float16).astype(np.float32))
    np.testing.assert_allclose(again.act(SEEN, W), library.act(SEEN, W), atol=0.5)
    again.save(tmp_path / "again.rasf", precision="half")
    assert_same(rasf.load(tmp_path / "again.rasf"), again)
    assert (tmp_path / "half.rasf").stat().st_size < (tmp_path / "whole.rasf").stat().st_size


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d, a: a.pop("actor/heads/bias"), "arrays must be those of actors of widths"),
        (lambda d, a: a.update({"actor/more": np.zeros(1, np.float32)}), "'actor/more' is missing or unknown"),
        (lambda d, a: a.update({"other": np.zeros(1, np.float32)}), "must contain only arrays of"),
        (lambda d, a: a["actor/hidden/0/bias"].fill(np.nan), "actor/hidden/0/bias"),
        (lambda d, a: a.update({"actor/heads/bias": np.zeros((4, 1, 3), np.float32)}), "actor/heads/bias"),
        (lambda d, a: a.update({"actor/heads/bias": np.zeros((4, 1, 2))}), "actor/heads/bias"),
        (lambda d, a: a.update({"psi/hidden/0/weight": np.zeros((1, 4, 8), np.float32)}), "psi/hidden/0/weight"),
        (lambda d, a: d.update(action_size=3), "must"),
        (lambda d, a: d.update(action_size=0), "action_size must"),
        (lambda d, a: d.update(action_size=2.0), "action_size must"),
        (lambda d, a: d.update(actor_widths=[]), "actor_widths must be a list of sizes"),
        (lambda d, a: d.update(actor_widths=8), "actor_widths must be a list of sizes"),
        (lambda d, a: d.update(actor_widths=[8, 8]), "arrays must be those of actors of widths"),
        (lambda d, a: d.pop("actor_widths"), "actor_widths must"),
        (lambda d, a: d.update(policies=3), "must"),
        (lambda d, a: d.update(shared=False), "must"),
    ],
)
def test_files_with_other_arrays_are_refused(library, change, words):
    description = json.loads(json.dumps(library.sources.describe()))
    arrays = {name: array.copy() for name, array in library.sources.arrays().items()}
    change(description, arrays)
    with pytest.raises(ValueError, match=words):
        ActorPolicies.restore(description, arrays)


# --- growth


def test_growing_keeps_the_old_policies_bit_for_bit(library):
    for more in ([[0.2, 1.0, 0.1]], [[0.2, 1.0, 0.1], [2.0, 1.0, 0.0], [1.0, 2.0, 0.0]]):  # fewer and more than before
        grown = library.grow(five, more, steps_per_task=60, batch=8, warmup=30, updates=0.5)
        assert [policy.w for policy in grown.policies[4:]] == [*map(tuple, more)]
        first = library.sources.proposals(library.encode(SEEN))
        np.testing.assert_allclose(grown.sources.proposals(grown.encode(SEEN))[:, :4], first, atol=1e-6)
        old, new = library.scores(SEEN, W, AVERSE), grown.scores(SEEN, W, AVERSE)
        np.testing.assert_allclose(new.mean[:4, :, :4], old.mean, atol=1e-5)
        np.testing.assert_allclose(new.std[:4, :, :4], old.std, atol=1e-5)
        for part in ("actor/heads/weight", "psi/heads/weight", "Sigma/heads/weight"):
            np.testing.assert_array_equal(grown.sources.arrays()[part][:4], library.sources.arrays()[part])


def test_a_base_library_acts_in_exploration(library):
    """Without random actions and noise, the first actions are those of the base library's best policies."""
    taken = []

    class Watched(Lever):
        def step(self, action):
            taken.append((self._last, np.array(action)))
            return super().step(action)

        def _obs(self):
            self._last = super()._obs()
            return self._last

    w = [30.0, 0.1, 0.0]
    learned(
        functools.partial(Watched, 5), tasks=[w], risk=NEUTRAL, base_library=library, steps_per_task=10, noise=0.0,
        epsilon=0.0, exploration=0.0, warmup=0, averse_episodes=0.0, updates=0.01,
    )  # fmt: skip
    played = taken[-10:]
    alike = [np.abs(library.act(obs, w, t=i % 5) - action).max() < 1e-3 for i, (obs, action) in enumerate(played)]
    assert sum(alike) >= 5  # the base library predicts more than new networks, whose predictions are near 0


def test_merging_joins_policies(library):
    other = learned(seed=8)
    both = rasf.merge([library, other])
    assert len(both.policies) == both.sources.policies == both.sources.n_actions == 8
    proposed = both.sources.proposals(both.encode(SEEN))
    for part, at in ((library, slice(0, 4)), (other, slice(4, 8))):
        np.testing.assert_allclose(proposed[:, at], part.sources.proposals(part.encode(SEEN)), atol=1e-6)
        of_both, own = both.scores(SEEN, W, AVERSE), part.scores(SEEN, W, AVERSE)
        np.testing.assert_allclose(of_both.mean[at, :, at], own.mean, atol=1e-5)
    assert both.act(SEEN, W).shape == (7, 2)
    with pytest.raises(ValueError, match="box differ"):
        rasf.merge([library, learned(functools.partial(Lever, 5, dtype=np.float64))])


# --- environments


def test_several_environments_in_parallel():
    two = learned(num_envs=2)
    assert two.act(SEEN, W).shape == (7, 2)
    assert_same(learned(num_envs=2), two)


def phi_of_pendulum(obs, action, next_obs, info):
    """Height, and the torque's square, of the action as the environment takes it."""
    assert action.shape == (1,)
    assert abs(action[0]) <= 2
    return [float(next_obs[0]), -(float(action[0]) ** 2)]


def test_a_vector_environment():
    vector = gym.vector.SyncVectorEnv([lambda: gym.make("Pendulum-v1")] * 2)
    found = learned(vector, phi=phi_of_pendulum, tasks=[[1.0, 0.1]], num_envs=2, steps_per_task=100)
    assert found.agent == "rasftd3"
    with pytest.raises(ValueError, match="single environment"):
        learned(vector, phi=phi_of_pendulum, tasks=[[1.0, 0.1]], agent="rasfql", risk=NEUTRAL)


def test_the_pendulum(tmp_path):
    found = learned("Pendulum-v1", phi=phi_of_pendulum, tasks=[[1.0, 0.1], [1.0, 0.01]], steps_per_task=150)
    assert found.sources.limit == 200
    report = found.evaluate("Pendulum-v1", [1.0, 0.05], AVERSE, episodes=2, phi=phi_of_pendulum)
    assert report.lengths.tolist() == [200, 200]
    found.save(tmp_path / "a.rasf")
    obs = np.array([0.5, 0.5, 1.0], np.float32)
    action = rasf.load(tmp_path / "a.rasf").act(obs, [1.0, 0.05])
    assert action.shape == (1,)
    assert gym.make("Pendulum-v1").action_space.contains(action)
    np.testing.assert_array_equal(action, found.act(obs, [1.0, 0.05]))


def test_a_world_is_compiled_and_acts_within_its_bounds(monkeypatch, tmp_path):
    runs, chunks = [], fused.chunks
    monkeypatch.setattr(fused, "chunks", lambda *given: runs.append(1) or chunks(*given))
    world = Push(episode_length=6, edge=0.9)
    options = {"tasks": [[1.0, 0.0, 0.2]], "risk": NEUTRAL, "steps_per_task": 60, "updates": 1}
    found = learned(world, **options)
    assert runs == [1]
    assert found.agent == "rasftd3"
    obs = np.zeros((3, 3), np.float32)
    assert found.act(obs, [1.0, 0.5, 0.0]).dtype == np.float32
    assert np.abs(found.act(obs, [1.0, 0.5, 0.0])).max() <= 1
    assert_same(learned(world, **options), found)
    report = found.evaluate(world, [1.0, 0.5, 0.0], episodes=3)
    assert report.lengths.max() <= 6
    grown = found.grow(world, [[0.0, 0.0, 1.0]], steps_per_task=60, batch=8, warmup=30)  # stepped, because of the base
    assert len(grown.policies) == 2


def test_updates_that_are_rounded_up_are_counted_in_the_plan(monkeypatch):
    """In a compiled world: policies are frozen at the end of training, and not before."""
    agents, start = [], fused.start_lanes
    monkeypatch.setattr(fused, "start_lanes", lambda agent, *given: agents.append(agent) or start(agent, *given))
    learned(Push(), tasks=[[1.0, 0.0, 0.2]], risk=NEUTRAL, steps_per_task=60, updates=0.25)
    (agent,) = agents
    assert agent.updates_for(1) == 1
    assert agent.planned == 30  # one update in each step after the warm-up of 30


def test_a_callback_sees_and_stops(library):
    seen = []
    whole = learned(callback=seen.append)
    assert_same(whole, library)
    assert {progress.risk for progress in seen} <= {NEUTRAL, AVERSE}
    assert seen[-1].share == 1.0
    del seen[:]
    learned(callback=lambda progress: seen.append(progress) or True)
    assert [progress.share < 1 for progress in seen] == [True]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env", "more"),
    [
        pytest.param(Lever, {}, marks=pytest.mark.slow),
        pytest.param(five, {"num_envs": 2}, marks=pytest.mark.slow),
        (Push(), {"updates": 1, "risk": NEUTRAL, "interleaved": False}),
    ],
    ids=["episodes", "two environments", "compiled"],
)
def test_an_interrupted_training_goes_on_to_the_same_bits(env, more, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "_SHARE", 0.0)
    path, options = tmp_path / "checkpoint", {"steps_per_task": 260} | more
    whole = learned(env, **options)

    class Interrupted(Exception):
        pass

    def interrupt(progress):
        if progress.share > 0.4 and path.exists():
            raise Interrupted

    with pytest.raises(Interrupted):
        learned(env, **options, callback=interrupt, checkpoint=path, checkpoint_seconds=0.0)
    assert_same(learned(env, **options, checkpoint=path), whole)
    assert not path.exists()


# --- logs


def play(env, steps, seed=0):
    """Random actions; what the environment answered."""
    rng, told = np.random.default_rng(seed), []
    obs, _ = env.reset(seed=seed)
    for _ in range(steps):
        action = rng.uniform(env.action_space.low, env.action_space.high).astype(np.float32)
        after, phi, terminated, truncated, _ = env.step(action)
        told.append((obs, action, phi, after))
        obs = env.reset()[0] if terminated or truncated else after
    return told


def test_a_recorder_keeps_vectors_and_tables_cannot_learn_from_them(tmp_path):
    with rasf.Recorder(Lever(5), tmp_path, steps_per_part=8) as env:
        told = play(env, 20)
    recorded, plain = told, play(Lever(5), 20)
    for one, other in zip(recorded, plain, strict=True):
        for part, same in zip(one, other, strict=True):
            np.testing.assert_array_equal(part, same)
    parts = sorted(tmp_path.glob("part-*.rasf"))
    assert len(parts) == 3
    from rasf.files import load_file

    kept = np.concatenate([load_file(part)[1]["action"] for part in parts])
    assert (kept.dtype, kept.shape) == (np.float32, (20, 2))
    np.testing.assert_allclose((kept + 1) * [2, 10] + [-1, 20], [action for _, action, *_ in told], atol=1e-5)
    for read in (lambda: rasf.Log.read(tmp_path), lambda: rasf.learn_from(tmp_path, tasks=[W])):
        with pytest.raises(
            ValueError, match=r"actions of a log must be numbered \(Discrete\).* vectors of 2"
        ) as refused:
            read()
        assert "\n" not in str(refused.value)


def test_a_recorder_refuses_actions_of_other_shapes(tmp_path):
    with rasf.Recorder(Lever(5), tmp_path) as env:
        env.reset(seed=0)
        for wrong in (3, [1.0], [1.0, np.nan], "left", None, np.zeros((2, 1))):
            with pytest.raises(
                ValueError, match=r"action must be finite numbers of shape \(2,\)|contains|AssertionError"
            ):
                env.step(wrong)
        env.step(np.array([0.0, 30.0], np.float32))
    with pytest.raises(ValueError, match="another environment: its box was"):
        rasf.Recorder(Lever(5, dtype=np.float64), tmp_path)
