"""Checks of the values that environments and phi (the feature function) return; a failed check raises ValueError."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar

import gymnasium
import numpy as np
import numpy.typing as npt

from rasf.arrays import Floats
from rasf.checks import floats

Info: TypeAlias = dict[str, Any]
Phi: TypeAlias = Callable[..., npt.ArrayLike]  # the arguments are obs, action, next_obs, info and optional ones
WholeStep: TypeAlias = Callable[[object, object, object, Info, object, object, object], npt.ArrayLike]
T = TypeVar("T")
MAX_COUNT = 2**15  # largest number of features: tables store the index of a feature in 16 bits
MAX_FEATURE = 1e18  # largest absolute value of a feature: its square fits into float32, which networks use
_OPTIONAL = ("reward", "terminated", "truncated")  # further parameters that phi may have; they are passed by name
_ANSWERS = {"reset": ("obs", "info"), "step": ("obs", "reward", "terminated", "truncated", "info")}


def checked_reset(env: gymnasium.Env | gymnasium.vector.VectorEnv, seed: int | list[int] | None) -> Any:
    """Reset an environment and return the checked result (obs, info)."""
    try:
        return checked("reset", env.reset(seed=seed))
    except TypeError as error:
        if "argument 'seed'" not in str(error):
            raise
        raise ValueError(f"the environment's reset must take a seed, as in Gymnasium: {error}") from None


def checked(call: str, answer: object) -> Any:
    """Return the result of an environment's "reset" or "step"; raise ValueError if Gymnasium's form is violated."""
    wanted = _ANSWERS[call]
    if not isinstance(answer, tuple | list) or len(answer) != len(wanted) or not isinstance(answer[-1], Mapping):
        got = f"{len(answer)} values" if isinstance(answer, tuple) else type(answer).__name__
        raise ValueError(f"the environment's {call} must return ({', '.join(wanted)}), as in Gymnasium, got {got}")
    return answer


def space_of(env: gymnasium.Env | gymnasium.vector.VectorEnv, name: str) -> gymnasium.Space:
    """Return the space in the attribute `name` of an environment, or raise ValueError if there is none."""
    found = getattr(env, name, None)
    if not isinstance(found, gymnasium.Space):
        got = "none" if found is None else f"a {type(found).__module__}.{type(found).__name__}"
        raise ValueError(f"the environment must have an {name}, a space of gymnasium.spaces, got {got}")
    return found


def flag(name: str, value: object) -> bool:
    """Return a flag (True, False, 0 or 1, of Python or numpy) as bool; raise ValueError for other values."""
    if getattr(value, "ndim", 0) or not (value == 0 or value == 1):
        raise ValueError(f"{name} must be True or False, got {value!r:.60}")
    return bool(value)


def kept(obs: T) -> T:
    """Return a copy of an observation, because environments may write their next observation into the same array."""
    return obs.copy() if isinstance(obs, np.ndarray) else copy.deepcopy(obs)  # `copy` is faster than `deepcopy`


def allowed(encode: Callable[[object], T], obs: object) -> T:
    """Return the encoded observation of an environment, or raise ValueError if it is not in the observation space."""
    try:
        return encode(obs)
    except ValueError as error:
        raise ValueError(f"the environment gave an observation that is not in its space: {error}") from None


def own_randomness(env: gymnasium.Env) -> None:
    """Make minecart of MO-Gymnasium draw ores from its own generator instead of numpy's global generator."""
    for mine in getattr(env.unwrapped, "mines", ()):
        for distribution in getattr(mine, "distributions", ()):
            distribution.random_state = env.unwrapped.np_random


def phi_asks(phi: Phi) -> tuple[str, ...]:
    """Return those names among reward, terminated and truncated that phi has as parameters after its first four.

    Raises:
        ValueError: if phi cannot be called with (obs, action, next_obs, info) and the optional parameters.
    """
    if not callable(phi):
        raise ValueError(f"phi must be a function phi(obs, action, next_obs, info), got {type(phi).__name__}")
    try:
        signature = inspect.signature(phi)
    except (TypeError, ValueError):  # some compiled functions have no signature
        return ()
    asked = tuple(name for name in list(signature.parameters)[4:] if name in _OPTIONAL)
    try:
        signature.bind(None, None, None, None, **dict.fromkeys(asked))
    except TypeError:
        raise ValueError(
            "phi must be a function phi(obs, action, next_obs, info), with further parameters only if they are named "
            f"{', '.join(_OPTIONAL)} or have a default, got phi{signature}"
        ) from None
    return asked


def phi_caller(phi: Phi) -> WholeStep:
    """Return a function of (obs, action, next_obs, info, reward, terminated, truncated) that calls phi.

    The function passes the first four arguments to phi, and any of the last three that are parameters of phi. The
    signature of phi is inspected only once, by `phi_asks`, which raises ValueError for a wrong signature.
    """
    asked = phi_asks(phi)
    if not asked:
        return lambda obs, action, next_obs, info, *_: phi(obs, action, next_obs, info)
    places = [(name, _OPTIONAL.index(name)) for name in asked]

    def call(obs: object, action: object, next_obs: object, info: Info, *more: object) -> npt.ArrayLike:
        return phi(obs, action, next_obs, info, **{name: more[place] for name, place in places})

    return call


def phi_bounds(phi: Phi, given: npt.ArrayLike | None = None) -> Floats | None:
    """Return the bounds (d, 2) of phi: `given`, or the attribute `bounds` of phi; None if both are missing."""
    name, found = ("phi.bounds", getattr(phi, "bounds", None)) if given is None else ("bounds", given)
    if found is None:
        return None
    bounds = floats(found)
    if bounds.ndim != 2 or bounds.shape[1] != 2 or not bounds.size or not (bounds[:, 0] <= bounds[:, 1]).all():
        raise ValueError(f"{name} must have shape (d, 2): lowest and highest value of each feature, got {found!r:.60}")
    return bounds


def checked_bounds(bounds: Floats) -> Floats:
    """Return bounds (d, 2) of features, or raise ValueError unless d is from 1 to MAX_COUNT."""
    if not 1 <= len(bounds) <= MAX_COUNT:
        raise ValueError(f"the number of features must be 1 to {MAX_COUNT}, got {len(bounds)}")
    return bounds


def numbers_of(features: npt.ArrayLike) -> Floats:
    """Return features or rewards as float64, or raise ValueError if they are not real numbers."""
    try:
        found = np.asarray(features)
        if found.dtype.kind in "biufO":
            return found.astype(np.float64, copy=False)
    except (TypeError, ValueError):
        pass
    raise ValueError(f"the features of a step must be numbers, got {' '.join(repr(features).split()):.60}")


def check_features(features: Floats) -> None:
    """Raise ValueError if features are nan, or so large that their variance would not fit in single precision."""
    # for few numbers, counting is faster than `all`
    if np.count_nonzero(np.abs(features) <= MAX_FEATURE) < features.size:
        raise ValueError(
            f"the features of a step must be finite and at most {MAX_FEATURE:g} in size, got {features.tolist()!s:.200}"
        )


def wrong_features(shape: tuple[int, ...], n_features: int | None, phi: Phi | None) -> str:
    """Return the error message for features of a shape other than (d,)."""
    wanted = "(d,)" if n_features is None else f"({n_features},)"
    if phi is not None:
        return f"phi must return features of shape {wanted}, got shape {shape}"
    if shape == ():
        return "the environment's reward is one number, not a vector of features; give phi(obs, action, next_obs, info)"
    return f"the environment's reward must be features of shape {wanted}, got shape {shape}"
