"""The reacher as a compiled world for `learn`: its description, and an adapter that needs no Gymnasium."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

import numpy as np

from rasf.arrays import Floats, Ints
from rasf.envs.gymnasium.description import EnvironmentDescription, plain
from rasf.envs.gymnasium.encoder import Encoder
from rasf.envs.reacher.world import Reacher

if TYPE_CHECKING:
    from rasf.envs.gymnasium.vector import FeatureVector


def reacher_description(world: Reacher) -> EnvironmentDescription:
    """What a library keeps of a reacher: the description of its Gymnasium environment, made without Gymnasium."""
    low, high = world.observation_bounds.T.astype(np.float32).tolist()
    bounds = world.feature_bounds.astype(np.float32).tolist()
    changed = {f.name: plain(getattr(world, f.name)) for f in fields(world) if getattr(world, f.name) != f.default}
    return EnvironmentDescription(
        id="rasf/Reacher-v0",
        kwargs=changed,
        observations={"kind": "box", "shape": [len(low)], "dtype": "float32", "low": low, "high": high},
        n_actions=world.n_actions,
        first_action=0,
        n_features=world.n_features,
        bounds=tuple((lowest, highest) for lowest, highest in bounds),
        phi=None,
        max_episode_steps=None,
        feature_names=world.feature_names,
    )


class ReacherAdapter:
    """A reacher by itself, without Gymnasium, in the words that `learn` has for environments."""

    reports_failures = True

    def __init__(self, world: Reacher) -> None:
        self.world, self.n_actions, self.n_features = world, world.n_actions, world.n_features
        self.encoder = Encoder(self.describe().observations)
        self.bounds = self.declared_bounds = np.array(self.describe().bounds)

    def describe(self) -> EnvironmentDescription:
        return reacher_description(self.world)

    @property
    def signs(self) -> Ints:
        return np.array(self.world.signs)

    @property
    def events(self) -> tuple[int, ...]:
        return self.world.events

    def random_tasks(self, count: int, rng: np.random.Generator) -> Floats | None:
        return None

    def stepped(self) -> FeatureVector:
        """Its Gymnasium environment, for what needs single steps."""
        from rasf.envs.gymnasium.vector import open_vector

        return open_vector("rasf/Reacher-v0", **self.describe().kwargs)
