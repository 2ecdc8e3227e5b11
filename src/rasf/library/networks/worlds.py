"""An adapter by which `learn` accepts worlds written in jax, without Gymnasium."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rasf.arrays import Floats, Ints
from rasf.envs.gymnasium.description import EnvironmentDescription, world_description
from rasf.envs.gymnasium.encoder import Encoder
from rasf.world import World

if TYPE_CHECKING:
    from rasf.envs.gymnasium.vector import FeatureVector


class WorldAdapter:
    """A world in jax with the attributes that `learn` reads from an environment.

    Args:
        world: The world.
    """

    def __init__(self, world: World) -> None:
        described = world_description(world)
        self.world, self.actions, self.n_features = world, described.actions, described.n_features
        self.n_actions = self.actions.n
        self.encoder = Encoder(described.observations)
        self.bounds = self.declared_bounds = np.array(described.bounds)
        self.failure_feature: int | None = getattr(world, "failure_feature", None)

    @property
    def time_limit(self) -> int | None:
        return self.world.episode_length

    def describe(self) -> EnvironmentDescription:
        return world_description(self.world)

    @property
    def reports_failures(self) -> bool:
        return self.failure_feature is not None

    @property
    def signs(self) -> Ints | None:
        signs = getattr(self.world, "signs", None)
        return None if signs is None else np.array(signs)

    @property
    def events(self) -> tuple[int, ...]:
        return tuple(getattr(self.world, "events", ()))

    def random_tasks(self, count: int, rng: np.random.Generator) -> Floats | None:
        return None

    def stepped(self) -> FeatureVector:
        """Return the world as a Gymnasium environment, for the stepped driver."""
        from rasf.envs.gymnasium.vector import open_vector
        from rasf.envs.gymnasium.worlds import world_environment

        return open_vector(lambda: world_environment(self.world))


def compiled_world(env: FeatureVector | WorldAdapter) -> World | None:
    """Return the jax world that an environment wraps without changes, or None if there is no such world.

    Args:
        env: The environment. The class of a Gymnasium environment must itself have the attribute `compiled_world`.
    """
    if isinstance(env, WorldAdapter):
        return env.world
    from gymnasium.wrappers import OrderEnforcing

    from rasf.envs.gymnasium.vector import SyncEnvs

    if not isinstance(env, SyncEnvs) or env.num_envs > 1:
        return None
    if env.environments[0].has_phi or env.environments[0].counts_failures:
        return None
    outer = env.environments[0].env
    inner = outer.env if type(outer) is OrderEnforcing else outer
    # an inherited attribute is ignored, because subclasses and wrappers may change observations or steps
    return inner.compiled_world if "compiled_world" in vars(type(inner)) else None
