"""Which agent suits an environment, which contradict a risk, and settings by name."""

import re
import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from library_worlds import random_world

import rasf
from rasf import CVaR, Entropic, MeanVariance
from rasf.agents import AGENTS, check_risks, library_agent
from rasf.deep.settings import HistogramSettings, network_settings
from rasf.envs.gymnasium.single import open_environment
from rasf.library.arguments.environment import choose_agent
from rasf.library.training import with_settings
from rasf.tabular.settings import TableSettings

NEUTRAL, AVERSE = MeanVariance(0.0), MeanVariance(-1.0)


def check_agent(name, risks):
    check_risks(library_agent(name), risks)


class Drawing(gym.Env):
    """Shows what `draw(rng, t)` gives."""

    action_space = spaces.Discrete(2)
    reward_space = spaces.Box(0.0, 1.0, (1,))

    def __init__(self, space, draw, limit=20):
        self.observation_space, self.draw, self.limit = space, draw, limit

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self.draw(self.np_random, 0), {}

    def step(self, action):
        self.time += 1
        return self.draw(self.np_random, self.time), np.ones(1), False, self.time >= self.limit, {}


class Slow:
    """Every fourth observation is new, the others are 0."""

    def __init__(self):
        self.count = 0

    def __call__(self, rng, t):
        self.count += 1
        return 0 if self.count % 4 else self.count


@pytest.mark.parametrize(("env_id", "agent", "because"), [
    ("deep-sea-treasure-v0", "rasfql", "at most .* observations"),
    ("resource-gathering-v0", "rasfql", "at most .* observations"),
    ("four-room-v0", "rasfql", "observations"),
    ("fruit-tree-v0", "rasfql", "observations"),
    ("breakable-bottles-v0", "rasfql", "observations"),
    ("minecart-v0", "rasfdqn", "not whole numbers"),
    ("mo-lunar-lander-v3", "rasfdqn", "not whole numbers"),
    ("mo-mountaincar-v0", "rasfdqn", "not whole numbers"),
    ("fishwood-v0", "rasfql", "at most 2 observations"),
    ("rasf/FourRoom-v0", "rasfql", "observations recur"),
    ("rasf/Inventory-v0", "rasfql", "at most 4 observations"),
    ("rasf/Machines-v0", "rasfql", "at most 64 observations"),
    ("rasf/Grid-v0", "rasfql", "at most .* observations"),
    ("rasf/Reacher-v0", "rasfc51", "the environment declares this agent"),
])  # fmt: skip
def test_the_agent_that_suits_well_known_environments(env_id, agent, because):
    if not env_id.startswith("rasf/"):
        pytest.importorskip("mo_gymnasium")
    env = open_environment(env_id)
    chosen, reason = choose_agent(env, 0)
    assert chosen is AGENTS[agent]
    assert (chosen, reason) == choose_agent(env, 0)
    assert re.search(because, reason)
    env.close()


@pytest.mark.parametrize(("space", "draw", "agent", "because"), [
    (spaces.Discrete(100_000), lambda rng, t: int(rng.integers(100_000)), "rasfql", "at most 100000"),
    (spaces.Discrete(10**7), lambda rng, t: int(rng.integers(10**7)), "rasfdqn", "hardly recur: (1999|2000) different"),
    (spaces.Discrete(10**7), lambda rng, t: t, "rasfql", "recur: 2. different observations in 20000 random steps, 0%"),
    # recurs at first, and never stops to show new ones
    (spaces.Discrete(10**7), lambda rng, t: int(rng.integers(1000)) ** 2, "rasfql", "recur: 1000 .* steps, 0% new"),
    (spaces.Discrete(10**7), Slow(), "rasfdqn", "hardly recur: [0-9]+ .* 20000 random steps, 25% new"),
    (spaces.MultiDiscrete([9] * 9), lambda rng, t: rng.integers(9, size=9), "rasfdqn", "hardly recur"),
    (spaces.MultiBinary(40), lambda rng, t: np.arange(40) < t, "rasfql", "observations recur"),
    (spaces.MultiBinary(49), lambda rng, t: np.arange(49) < t, "rasfdqn", "have 49 numbers each, too many for a table"),
    # as MiniGrid's view, of which many recur in a short walk
    (
        spaces.Box(0, 255, (7, 7, 3), np.uint8),
        lambda rng, t: np.full((7, 7, 3), t, np.uint8),
        "rasfdqn",
        r"are images of shape \(7, 7, 3\)",
    ),
    (
        spaces.Dict({"image": spaces.Box(0, 255, (64, 64), np.uint8), "direction": spaces.Discrete(4)}),
        lambda rng, t: {"image": np.full((64, 64), t, np.uint8), "direction": 0},
        "rasfdqn",
        r"are images of shape \(64, 64\)",
    ),
    (spaces.Box(0, 1, (2, 2, 1), np.uint8), lambda rng, t: np.zeros((2, 2, 1), np.uint8), "rasfql", "at most 16"),
    (spaces.Box(0.0, 1.0, (2,)), lambda rng, t: np.zeros(2, np.float32), "rasfdqn", "not whole numbers of a bounded"),
    (
        spaces.Box(-(2**62), 2**62, (1,), np.int64),
        lambda rng, t: np.array([t]),
        "rasfdqn",
        "not whole numbers of a bounded range",
    ),
    (
        spaces.Dict({"a": spaces.Discrete(3), "b": spaces.Box(0, 9, (2,), np.int8)}),
        lambda rng, t: {"a": t % 3, "b": np.zeros(2, np.int8)},
        "rasfql",
        "at most 300 observations",
    ),
    (
        spaces.Tuple((spaces.Discrete(3), spaces.Box(0.0, 1.0, (1,)))),
        lambda rng, t: (t % 3, np.zeros(1, np.float32)),
        "rasfdqn",
        "not whole numbers",
    ),
])  # fmt: skip
def test_the_agent_that_suits_a_space(space, draw, agent, because):
    chosen, reason = choose_agent(open_environment(Drawing(space, draw)), 1)
    assert chosen is AGENTS[agent]
    assert re.search(because, reason)


def test_networks_that_can_be_trained_for_the_risk_are_chosen():
    env = open_environment(Drawing(spaces.Box(0.0, 1.0, (2,)), lambda rng, t: np.zeros(2, np.float32)))
    assert choose_agent(env, 1, [NEUTRAL, MeanVariance(-1.0)])[0] is AGENTS["rasfdqn"]
    assert choose_agent(env, 1, [NEUTRAL, Entropic(-1.0)])[0] is AGENTS["rasfc51"]


def test_learn_says_which_agent_it_chose_and_why():
    library = rasf.learn(random_world(0), tasks=1, steps_per_task=5)
    assert library.agent == "rasfql"
    assert "agent rasfql was chosen because the environment has at most 4 observations" in library.notes
    named = rasf.learn(random_world(0), tasks=1, steps_per_task=5, agent="rasfql")
    assert not any("chosen" in note for note in named.notes)


@pytest.mark.parametrize("name", [spec.name for spec in AGENTS.values() if spec.makes_library])
def test_names_without_a_risk_refuse_one(name):
    check_agent(name, [NEUTRAL])
    neutral = not name.startswith("ra") and name != "sfdqn-residual"
    if neutral:
        for risk in (AVERSE, Entropic(-1.0), CVaR(0.5)):
            with pytest.raises(ValueError, match=f"'{name}' is risk-neutral; .* use") as refused:
                check_agent(name, [NEUTRAL, risk])
            check_agent(str(refused.value).rsplit("'", 2)[1], [AVERSE])
    else:
        check_agent(name, [NEUTRAL, AVERSE])
        with pytest.raises(ValueError, match=rf"^risk .* {name}, .* can act for it"):
            check_agent(name, [CVaR(0.5)])


def test_entropic_risk_trains_histograms_only():
    check_agent("rasfc51", [Entropic(-1.0)])
    for name in ("rasfql", "sfdqn-residual"):
        # nor can it act with the moments that these agents learn, so nothing is promised
        with pytest.raises(ValueError, match=f"MeanVariance .* {name}, got entropic:-1.0$"):
            check_agent(name, [Entropic(-1.0)])


@pytest.mark.parametrize("name", ["c51", "rac51", "prql", "RASFQL", "", None, 3, ["sfql"]])
def test_other_agents_are_unknown(name):
    with pytest.raises(ValueError, match="agent must"):
        check_agent(name, [NEUTRAL])


def test_settings_change_by_name():
    changed = with_settings(network_settings("rasfc51"), {"widths": [4, 4], "atoms": 7})
    assert changed == HistogramSettings(widths=(4, 4), atoms=7)
    assert with_settings(TableSettings(), {"alpha": 0.1}) == TableSettings(alpha=0.1)
    for base, given, said in (
        (network_settings("sfdqn"), {"law": "histogram"}, "settings must be among .*, got law"),
        (network_settings("sfdqn"), {"surprise": 0.5}, "^setting surprise has the new name prioritised$"),
        (network_settings("sfdqn"), {"atoms": 5}, "got atoms"),
        (network_settings("rasfc51"), {"events": (0,)}, "got events"),
        (TableSettings(), {"risk": AVERSE}, "got risk"),
        (TableSettings(), {"b": 1, "a": 2}, "got a, b"),
        (TableSettings(), {"alpha": None}, "alpha must|settings must"),
        (network_settings("sfdqn"), {"widths": ()}, "widths must"),
        (network_settings("sfdqn"), {"learning_rate": "fast"}, "learning_rate must|settings must"),
    ):
        with pytest.raises(ValueError, match=said) as refused:
            with_settings(base, given)
        assert "\n" not in str(refused.value)


def test_tables_are_learned_saved_and_used_without_jax(tmp_path):
    code = f"""
import sys, rasf
env = "rasf/Grid-v0"
library = rasf.learn(env, tasks=1, agent="rasfql", steps_per_task=5)
library.save({str(tmp_path / "a.rasf")!r})
library = rasf.load({str(tmp_path / "a.rasf")!r})
library.evaluate(env, library.policies[0].w, rasf.MeanVariance(-1.0), 2)
print("jax" in sys.modules, library.provenance["versions"]["jax"])
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    from importlib.metadata import version

    assert out.stdout.split() == ["False", version("jax")]
