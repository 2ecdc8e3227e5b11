"""The frontier in the background: it gives way whenever a slider moves, and goes on where it was.

What is known of a level is kept as long as weights, family and seed stay: a dial that moves costs the frontier nothing
but a pause. A visitor may cancel it; then it waits to be asked for.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from nicegui import background_tasks

from rasf.arrays import Floats
from rasf.explorer.jobs import CancelPrevious, Reports, Say
from rasf.explorer.pages.numbers_panel import NumbersPanel
from rasf.explorer.scenes.frontier import frontier
from rasf.explorer.scenes.scene import ArmScene, Family, Frontier, MapScene, Outcome, Point, Stop
from rasf.explorer.state import State
from rasf.risk import Risk


class _Remembering:
    """A scene that acts only once for every risk."""

    def __init__(self, scene: Any) -> None:
        self._scene, self._known = scene, cast(dict[Risk, Outcome], {})

    def roll_out(self, w: Floats, risk: Risk, episodes: int, seed: int, stop: Stop) -> Outcome:
        if risk not in self._known:
            self._known[risk] = self._scene.roll_out(w, risk, episodes, seed, stop)
        return self._known[risk]


class FrontierJob:
    """Computes the frontier of a scene into a panel."""

    def __init__(self, scene: Any, episodes: int, panel: NumbersPanel, say: Say) -> None:
        self._scene, self._episodes, self._panel, self._latest = scene, episodes, panel, CancelPrevious(say)
        self._key: tuple[Any, ...] = ()
        self._turn = 0  # reports of earlier runs come late
        self._done = self._cancelled = False
        self._remembering = _Remembering(scene)
        self._asked: tuple[State, Family, Point] | None = None

    def pause(self) -> None:
        """Give way."""
        self._turn += 1
        self._latest.stop()

    def cancel(self) -> None:
        """Give up, until asked again."""
        self.pause()
        self._cancelled = True
        self._panel.rest(done=False)

    def again(self) -> None:
        """Go on, after all."""
        self._cancelled = False
        if self._asked is not None:
            background_tasks.create(self._run(*self._asked))

    def follow(self, state: State, family: Family, here: Point) -> None:
        """Another state has settled: mark its point, and compute what is missing."""
        key = (state.w, state.family, state.seed)
        if key != self._key:
            self._key, self._done, self._cancelled = key, False, False
            self._remembering = _Remembering(self._scene)
            self._panel.show_frontier(None, here, family)
        self._asked = (state, family, here)
        self._panel.show_frontier(self._panel.frontier, here, family)
        if not self._done and not self._cancelled:
            background_tasks.create(self._run(*self._asked))

    async def _run(self, state: State, family: Family, here: Point) -> None:
        self._turn += 1
        mine = self._turn

        def show(share: float, so_far: Frontier) -> None:
            if self._turn == mine:
                self._panel.progress(share)
                self._panel.show_frontier(so_far, here, family)

        reports = Reports(show)
        self._panel.progress(None)
        scene = cast(MapScene | ArmScene, self._remembering)

        def work(stop: Stop) -> Frontier:
            return frontier(scene, np.array(state.w), family, state.seed, self._episodes, reports, stop)

        found = await self._latest.run(work)
        if self._turn != mine:
            return
        self._turn += 1
        self._done = found is not None
        self._panel.show_frontier(found or self._panel.frontier, here, family)
        self._panel.rest(done=self._done)
