"""`rasf demo --driving`: a film of the shipped driving library, which acts at two risks in the same traffic.

The library acts for the weights `TASK`, for which it was not trained. The film has one episode for each risk. The two
episodes begin in the same traffic, which then reacts to the car. They begin in the first start state from which the
neutral car collides. So the film does not show how often cars collide. The printed table gives the number of collisions
in all episodes.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import gymnasium
import numpy as np
import numpy.typing as npt
from rich.console import Group
from rich.table import Table
from rich.text import Text

from rasf.envs.gymnasium.episodes import episodes
from rasf.envs.gymnasium.single import open_environment, seeds_from
from rasf.envs.gymnasium.vector import SyncEnvs
from rasf.files import write_atomically
from rasf.library.file import load
from rasf.risk import MeanVariance, Risk

if TYPE_CHECKING:
    from rasf.library.policy_library import PolicyLibrary

ROAD, TASK = "rasf/Highway-v0", (1.0, 0.0, -1.0)  # weights of speed, right lane and collision
AVERSION = -1.0
RISKS: dict[str, Risk] = {"neutral": MeanVariance(0.0), "risk-averse": MeanVariance(AVERSION)}
EPISODES = 20
_LONGEST = 10_000  # the largest number of steps of an episode
_PAUSE_MS, _LAST_MS = 150, 1_500
Frame = npt.NDArray[np.uint8]  # (height, width, 3)


class Drive(NamedTuple):
    """One episode: whether it ended in a collision, its mean speed (m/s), its number of steps of 1 s, and its frames.

    The list of frames is empty if the episode is not filmed.
    """

    crashed: bool
    speed: float
    steps: int
    frames: list[Frame]


def shipped_driver() -> PolicyLibrary:
    """Return the driving library that is part of the package. docs/suite.md describes the library."""
    return load(Path(str(resources.files("rasf_lab"))) / "shipped" / "highway.rasf")


def total_ticks() -> int:
    """Return how often `run` calls `tick`."""
    return len(RISKS) * (EPISODES + 1)


def run(seed: int, film: Path, tick: Callable[[], None]) -> Group:
    """Run the episodes at both risks, save the film, and return the report for the terminal.

    Args:
        seed: seed of the episodes.
        film: path of the film, which must end in .gif.
        tick: function that is called after each episode.
    """
    if film.suffix != ".gif":
        raise ValueError(f"out must be a file that ends in .gif, got {film}")
    library, seeds = shipped_driver(), seeds_from(seed, EPISODES)

    def counted(risk: Risk, one: int, render_mode: str | None = None) -> Drive:
        found = drive(library, risk, one, render_mode)
        tick()
        return found

    drives = {name: [counted(risk, one) for one in seeds] for name, risk in RISKS.items()}
    collided = [one.crashed for one in drives["neutral"]]
    chosen = seeds[collided.index(True)] if any(collided) else seeds[0]
    filmed = {name: counted(risk, chosen, "rgb_array") for name, risk in RISKS.items()}
    save_film(filmed, film)
    return _report(drives, film)


def drive(library: PolicyLibrary, risk: Risk, seed: int, render_mode: str | None = None) -> Drive:
    """Run one episode for `TASK`, with the start state of a seed. With `render_mode` "rgb_array", keep the frames."""
    env = open_environment(gymnasium.make(ROAD, render_mode=render_mode))
    frames: list[Frame] = []

    def picture() -> None:
        if render_mode is not None:
            frames.append(np.asarray(env.env.render(), np.uint8))

    def act(t: int, obs: dict[int, object]) -> list[int]:
        picture()
        return [int(library.act(one, TASK, risk, t=t)) - library.environment.first_action for one in obs.values()]

    infos = [one.step.info for [one] in episodes(SyncEnvs([env]), [seed], act, _LONGEST)]
    picture()
    env.close()
    return Drive(bool(infos[-1]["crashed"]), float(np.mean([info["speed"] for info in infos])), len(infos), frames)


def save_film(drives: dict[str, Drive], path: Path) -> None:
    """Save episodes as a GIF, one below the other. An episode that has ended shows its last frame."""
    from PIL import Image

    longest = max(len(drive.frames) for drive in drives.values())
    pictures = [Image.fromarray(_stacked(drives, t)) for t in range(longest)]
    waits = [_PAUSE_MS] * (longest - 1) + [_LAST_MS]

    def write(partial: str) -> None:
        pictures[0].save(partial, "GIF", save_all=True, append_images=pictures[1:], duration=waits, loop=0)

    write_atomically(path, write)


def _stacked(drives: dict[str, Drive], t: int) -> Frame:
    return np.concatenate([_titled(name, drive, t) for name, drive in drives.items()])


def _titled(name: str, drive: Drive, t: int) -> Frame:
    """Return the frame of step t below a line of text with the risk, the mean speed and the state of the episode."""
    from PIL import Image, ImageDraw

    at = min(t, len(drive.frames) - 1)
    ended = at == len(drive.frames) - 1
    state = f"collided after {drive.steps} s" if ended and drive.crashed else "arrived" if ended else f"{at} s"
    frame = drive.frames[at]
    line = Image.new("RGB", (frame.shape[1], 18), "white")
    ImageDraw.Draw(line).text((6, 3), f"{name}: {drive.speed:.1f} m/s on average, {state}", fill="black")
    return np.concatenate([np.asarray(line, np.uint8), frame])


def _report(drives: dict[str, list[Drive]], film: Path) -> Group:
    table = Table(title=f"{EPISODES} start states, the same for both risks; nothing is retrained", title_justify="left")
    for heading in ("acting", "collisions", "mean speed, m/s", "seconds driven"):
        table.add_column(heading, justify="left" if heading == "acting" else "right")
    for name, ours in drives.items():
        collisions = sum(one.crashed for one in ours)
        speed, seconds = (np.mean([getattr(one, part) for one in ours]) for part in ("speed", "steps"))
        table.add_row(name, f"{collisions} of {len(ours)}", f"{speed:.1f}", f"{seconds:.1f}")
    before = (
        "A library of four policies acts on the highway of its training, for a new task: drive fast, on any lane, and "
        f"a collision costs {-TASK[2]:g}. The library acts at two risks: neutral (the mean of the return), and "
        f"mean-variance with beta {AVERSION:g}.\n"
    )
    collides = any(one.crashed for one in drives["neutral"])
    which = "from which the neutral car collides" if collides else "of all, because the neutral car never collides"
    return Group(Text(before), table, Text(f"\nThe film {film} shows both risks from the first start state {which}."))
