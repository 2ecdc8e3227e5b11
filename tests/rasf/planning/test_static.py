"""Static risk: against plain recursions over histories, the guarantee on many MDPs, the grid against exact stocks."""

import itertools
import math
from functools import cache

import numpy as np
import pytest

import rasf
from rasf.planning import static
from rasf.risk import CVaR, Entropic, MeanVariance, MonotoneMeanVariance, PiecewiseLinear

RISKS = [CVaR(0.25), PiecewiseLinear(0.3, 3.0), MonotoneMeanVariance(-0.5), Entropic(-0.5)]


def random_mdp(rng, states=4, actions=3, gamma=1.0, terminal=()):
    P = rng.dirichlet(np.full(states, 0.5), (states, actions))
    P[P.max(axis=-1, keepdims=True) * 0.25 > P] = 0.0
    phi = rng.integers(-2, 3, (states, actions, states, 2)).astype(float)
    return rasf.FiniteMDP(P / P.sum(axis=-1, keepdims=True), phi, terminal=terminal, gamma=gamma)


class Plain:
    """The same on histories, by recursion: everything as written in the theorem, nothing shared."""

    def __init__(self, mdp, w, risk, horizon):
        self.mdp, self.risk, self.n, self.rewards = mdp, risk, horizon, mdp.rewards(w)

    def outcomes(self, t, s, a):
        """(probability, gain, next state) of a step; at the end nothing happens."""
        row = s * self.mdp.n_actions + a
        entries = range(self.mdp.indptr[row], self.mdp.indptr[row + 1])
        if not len(entries):
            return [(1.0, 0.0, s)]
        z = self.mdp.gamma**t
        return [(self.mdp.probability[k], z * self.rewards[k], int(self.mdp.successor[k])) for k in entries]

    def law(self, choose, s, t=0, accrued=0.0, first=None):
        """{return: probability} of what `choose(t, s, accrued)` does from here, perhaps after a first action."""
        if t == self.n:
            return {accrued: 1.0}
        found = {}
        for p, gain, to in self.outcomes(t, s, choose(t, s, accrued) if first is None else first):
            for value, q in self.law(choose, to, t + 1, accrued + gain).items():
                value = round(value, 10)
                found[value] = found.get(value, 0.0) + p * q
        return found

    def rho(self, law):
        """max_b b + E u(X - b), b from the atoms and a fine search between them."""
        x, p = np.array(list(law)), np.array(list(law.values()))

        def at(b):
            return b + p @ self.risk.utility(x - b)

        grid = np.unique(np.concatenate([x, np.linspace(x.min() - 1e-9, x.max(), 400)]))
        best = max(grid, key=at)
        step = (x.max() - x.min()) / 400
        for _ in range(4):  # b is unique up to flat stretches, and the function concave
            near = np.linspace(best - step, best + step, 101)
            best, step = max([*near, best], key=at), step / 40
        return at(best), best

    def gpi(self, sources, b):
        """Actions by stock: argmax_a max_i E u(c + rest of source i - b)."""

        @cache
        def choose(t, s, accrued):
            def score(a):
                each = [
                    self.law(lambda t, s, _, i=i: sources[i][s], s, t, accrued, first=a) for i in range(len(sources))
                ]
                return max(sum(p * self.risk.utility(np.float64(x - b)) for x, p in law.items()) for law in each)

            return max(range(self.mdp.n_actions), key=lambda a: (round(score(a), 9), -a))

        return choose

    def per_state(self, sources):
        """What is done today: the risk of the rest alone, afresh in every state."""

        @cache
        def choose(t, s, accrued):
            def score(a):
                each = [self.law(lambda t, s, _, i=i: sources[i][s], s, t, 0.0, first=a) for i in range(len(sources))]
                return max(self.rho(law)[0] for law in each)

            return max(range(self.mdp.n_actions), key=score)

        return choose

    def best(self, b, s):
        """The largest E u(G - b) of all policies that know the accrued return."""

        @cache
        def value(t, s, accrued):
            if t == self.n:
                return float(self.risk.utility(np.float64(accrued - b)))
            return max(
                sum(p * value(t + 1, to, round(accrued + gain, 10)) for p, gain, to in self.outcomes(t, s, a))
                for a in range(self.mdp.n_actions)
            )

        return value(0, s, 0.0)


def as_dict(law):
    return {round(x, 10): p for x, p in zip(law.values, law.probabilities, strict=True)}


@pytest.mark.parametrize("risk", RISKS)
@pytest.mark.parametrize(("gamma", "terminal"), [(1.0, ()), (0.9, (3,))])
def test_it_is_gpi_by_stock_as_written(risk, gamma, terminal):
    rng = np.random.default_rng(3)
    for _ in range(2):
        mdp, w = random_mdp(rng, gamma=gamma, terminal=terminal), rng.normal(size=2).round(1)
        sources = [rng.integers(3, size=4) for _ in range(2)]
        plain = Plain(mdp, w, risk, 3)
        ours = rasf.static_gpi(mdp, sources, w, risk, start=0, horizon=3, search=False)
        of_sources = [plain.rho(plain.law(lambda t, s, _, one=one: one[s], 0)) for one in sources]
        np.testing.assert_allclose(ours.sources, [value for value, _ in of_sources], atol=1e-5)
        law = plain.law(plain.gpi(sources, ours.threshold), 0)
        assert as_dict(ours.law) == pytest.approx(law)
        assert ours.risk == pytest.approx(plain.rho(law)[0], abs=1e-5)
        walked = plain.law(ours.action, 0)  # as somebody would who is told actions one by one
        assert walked == pytest.approx(law)
        assert ours.levels is None
        assert ours.error == 0


@pytest.mark.parametrize("risk", [CVaR(0.25), PiecewiseLinear(0.3, 3.0)])
def test_the_optimum_is_the_best_of_all_thresholds(risk):
    rng = np.random.default_rng(4)
    for gamma in (1.0, 0.8):
        mdp, w = random_mdp(rng, states=3, gamma=gamma), np.array([1.0, 1.0])
        plain = Plain(mdp, w, risk, 3)
        ends = {
            round(x, 10) for a in itertools.product(range(3), repeat=3) for x in plain.law(lambda t, *_, a=a: a[t], 0)
        }
        found = rasf.plan_static(mdp, w, risk, start=0, horizon=3)
        reached = max(b + plain.best(b, 0) for b in [*ends, *(float(x) for x in np.linspace(min(ends), max(ends), 60))])
        assert found.risk == pytest.approx(reached, abs=1e-9)
        assert found.sources.size == 0


def test_the_optimum_of_entropic_utility_is_that_of_its_own_plan():
    mdp = random_mdp(np.random.default_rng(5))
    w = np.array([0.7, -0.4])
    planned = rasf.plan(mdp, w, Entropic(-0.5), horizon=4)
    assert rasf.plan_static(mdp, w, Entropic(-0.5), start=1, horizon=4).risk == pytest.approx(planned.value[0, 1])


def guarantee(count, seed):
    """Over random MDPs: violations by stock, with a searched threshold, and of scoring every state afresh."""
    rng, found = np.random.default_rng(seed), np.zeros(3, int)
    gains = []
    for k in range(count):
        mdp = random_mdp(rng, states=3, actions=2, gamma=(1.0, 0.8)[k % 2])
        w, risk = rng.normal(size=2).round(1), RISKS[k % 4]
        sources = [rng.integers(2, size=3) for _ in range(2)]
        timid, bold = (
            rasf.static_gpi(mdp, sources, w, risk, start=0, horizon=3, search=search) for search in (False, True)
        )
        plain = Plain(mdp, w, risk, 3)
        afresh = plain.rho(plain.law(plain.per_state(sources), 0))[0]
        best = rasf.plan_static(mdp, w, risk, start=0, horizon=3).risk
        floor = timid.sources.max()
        found += [one < floor - 1e-6 for one in (timid.risk, bold.risk, afresh)]
        assert timid.risk - 1e-9 <= bold.risk
        assert max(bold.risk, afresh) <= best + 1e-3 * (1 + abs(best))  # of some risks the optimum is searched
        gains.append((floor, timid.risk, bold.risk, afresh, best))
    return found, np.array(gains)


@pytest.mark.slow
def test_never_below_the_best_source():
    (timid, bold, _), gains = guarantee(40, 0)
    assert timid == bold == 0
    assert gains[:, 2].mean() > gains[:, 0].mean()


@pytest.mark.slow  # a minute
def test_never_below_the_best_source_on_1000_mdps():
    (timid, bold, afresh), gains = guarantee(1_000, 1)
    assert timid == bold == 0
    assert afresh > 0  # without a stock it does happen
    floor, first, searched, _, best = gains.mean(axis=0)
    assert floor < first < searched < best


@pytest.mark.parametrize("risk", [pytest.param(RISKS[0], marks=pytest.mark.slow), *RISKS[1:]])
def test_the_grid_is_within_its_error_and_keeps_the_guarantee(risk):
    rng = np.random.default_rng(7)
    for gamma in (1.0, 0.9):
        mdp, w = random_mdp(rng, gamma=gamma, terminal=(3,)), rng.normal(size=2)
        sources = [rng.integers(3, size=4) for _ in range(3)]
        options = {"start": 0, "horizon": 4}
        exact = rasf.static_gpi(mdp, sources, w, risk, **options)
        errors = []
        for levels in (50, 400):
            grid = rasf.static_gpi(mdp, sources, w, risk, levels=levels, **options)
            assert grid.levels == levels
            assert grid.risk >= grid.sources.max() - 1e-9
            np.testing.assert_allclose(grid.sources, exact.sources, rtol=0, atol=grid.error)
            assert grid.law.probabilities.sum() == pytest.approx(1.0)
            best, optimum = (rasf.plan_static(mdp, w, risk, levels=one, **options) for one in (levels, None))
            assert best.risk - best.error <= optimum.risk + 1e-9  # it is what some policy reaches
            spacing = 2 * np.ptp(np.concatenate([grid.law.values, optimum.law.values])) / (levels - 1)
            assert optimum.risk - best.risk <= 4 * spacing  # of each of four steps
            errors.append(np.abs(grid.sources - exact.sources).max())
            # followed with the true accrued return
            plain = Plain(mdp, w, risk, 4)
            assert plain.rho(plain.law(grid.action, 0))[0] >= grid.risk - max(grid.error, spacing)
        assert errors[1] <= errors[0] + 1e-12


def test_a_rare_loss_is_served_exactly():
    mdp = rasf.FiniteMDP.from_transitions([(0, 0, 1, 0.5, [-3.0]), (0, 0, 1, 0.5, [0.0])], 2, 1, [1])
    found = rasf.static_gpi(mdp, [[0, 0]], [1.0], CVaR(0.01), start=0, horizon=1, levels=200)
    assert found.sources[0] == pytest.approx(-3.0, abs=1e-9)
    assert found.error < 1e-8


def test_entropic_utility_needs_no_grid():
    flips = rasf.FiniteMDP.from_transitions([(0, 0, 0, 0.5, [1.0]), (0, 0, 0, 0.5, [-1.0])], 1, 1)
    found = rasf.static_gpi(flips, [[0]], [1.0], Entropic(-1.0), start=0, horizon=200)
    assert found.levels == 200
    assert found.sources[0] == pytest.approx(-200 * math.log(math.cosh(1.0)))
    assert found.risk == found.threshold == pytest.approx(found.sources[0])
    assert found.error < 1e-6
    assert found.law.probabilities @ found.law.values == pytest.approx(0.0, abs=1e-9)
    assert found.action(3, 0, 2.0) == 0


ON_GRIDS = [
    CVaR(0.25),
    CVaR(0.01),
    PiecewiseLinear(0.3, 3.0),
    PiecewiseLinear(0.0, 30.0),
    MonotoneMeanVariance(-0.5),
    MonotoneMeanVariance(-5.0),
]


def grid_problem(seed):
    rng = np.random.default_rng(seed)
    terminal = ((), (3,))[seed // 2 % 2]
    mdp = random_mdp(rng, actions=2, gamma=(1.0, 0.9)[seed % 2], terminal=terminal)
    return mdp, rng.normal(size=2).round(1), [rng.integers(2, size=4) for _ in range(2)], rng


def test_the_sources_are_within_the_error():
    loose = []
    for seed in range(90):
        mdp, w, sources, rng = grid_problem(seed)
        risk, horizon, levels = ON_GRIDS[seed % 6], int(rng.integers(1, 6)), int(rng.choice([20, 50, 200]))
        grid = rasf.static_gpi(mdp, sources, w, risk, start=0, horizon=horizon, levels=levels)
        assert grid.risk >= grid.sources.max() - 1e-9
        plain = Plain(mdp, w, risk, horizon)
        for found, one in zip(grid.sources, sources, strict=True):
            law = plain.law(lambda t, s, _, one=one: one[s], 0)
            x, p = np.array(sorted(law)), np.array([law[x] for x in sorted(law)])
            true = float(risk.with_threshold(p, x)[0])
            assert -1e-9 <= true - found <= grid.error
            if true - found > 1e-6:
                loose.append(grid.error / (true - found))
    assert np.median(loose) < 3


@pytest.mark.parametrize("risk", ON_GRIDS)
def test_a_policy_by_the_kept_stock_is_within_the_error(risk):
    for seed in range(4):
        mdp, w, sources, _ = grid_problem(seed)
        plain = Plain(mdp, w, risk, 4)
        for found in (
            rasf.static_gpi(mdp, sources, w, risk, start=0, horizon=4, levels=12),
            rasf.plan_static(mdp, w, risk, start=0, horizon=4, levels=12),
        ):
            grid = static._Grid.of(static._Problem.of(mdp, w, risk, 0, 4), 12)
            joint = {(0, 0.0, 0.0): 1.0}  # state, accrued as it is kept, and as it is
            for t in range(4):
                after = {}
                for (s, kept, true), p in joint.items():
                    for q, gain, to in plain.outcomes(t, s, found.action(t, s, kept)):
                        at = (kept + gain - found.threshold - grid.low[t + 1, to]) / grid.spacing[t + 1, to]
                        assert -1e-9 <= at <= 11 + 1e-9
                        below = min(int(at), 10)
                        above = min(at - below, 1.0)
                        for level, share in ((below, 1 - above), (below + 1, above)):
                            stock = grid.low[t + 1, to] + level * grid.spacing[t + 1, to]
                            key = to, round(stock + found.threshold, 10), round(true + gain, 10)
                            after[key] = after.get(key, 0.0) + p * q * share
                joint = after
            laws = [{}, {}]
            for (_, *returns), p in joint.items():
                for law, x in zip(laws, returns, strict=True):
                    law[x] = law.get(x, 0.0) + p
            of_kept, of_true = (
                float(risk.with_threshold(np.array([law[x] for x in sorted(law)]), np.array(sorted(law)))[0])
                for law in laws
            )
            assert of_kept == pytest.approx(found.risk, abs=1e-6)
            assert abs(of_true - found.risk) <= found.error


def test_a_discounted_problem_without_horizon_is_cut_where_little_is_left():
    mdp = random_mdp(np.random.default_rng(8), gamma=0.6)
    w, sources = np.array([1.0, 0.5]), [np.zeros(4, int), np.ones(4, int)]
    found = rasf.static_gpi(mdp, sources, w, CVaR(1.0), start=2, levels=200)
    assert found.horizon == math.ceil(math.log(5e-4) / math.log(0.6))
    exact = [rasf.evaluate_policy(mdp, one, w)[2, one[2]] for one in sources]
    np.testing.assert_allclose(found.sources, exact, atol=found.error)
    assert found.error < 1
    assert "200 levels" in repr(found)


def test_many_states_go_on_a_grid():
    rng = np.random.default_rng(9)
    mdp, w = random_mdp(rng, states=40, gamma=0.95), rng.normal(size=2)
    found = rasf.static_gpi(mdp, [rng.integers(3, size=40) for _ in range(2)], w, CVaR(0.1), start=0, horizon=20)
    assert found.levels == 200
    assert found.risk >= found.sources.max()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"risk": MeanVariance(-1.0)}, "risk must be a certainty equivalent"),
        ({"risk": Entropic(0.5)}, "Entropic with beta <= 0"),
        ({"risk": Entropic(-1e3)}, "beta must be at least"),
        ({"start": 4}, "start must be a state from 0 to 3, got 4"),
        ({"horizon": None}, "horizon must be given at gamma = 1"),
        ({"horizon": 0}, "horizon must be"),
        ({"levels": 2}, "levels must be"),
        ({"policies": []}, "policies must hold at least one"),
        ({"policies": [[0, 1]]}, "policy must have shape"),
        ({"w": [1.0]}, "w must have shape"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(changes, sentence):
    given = {"policies": [np.zeros(4, int)], "w": [1.0, 1.0], "risk": CVaR(0.5), "start": 0, "horizon": 3} | changes
    with pytest.raises(ValueError, match=sentence):
        rasf.static_gpi(random_mdp(np.random.default_rng(0)), **given)


def test_where_all_is_over_nothing_is_earned():
    mdp = rasf.FiniteMDP(np.ones((1, 2, 1)), np.ones((1, 2, 1)), terminal=(0,), gamma=1.0)
    found = rasf.static_gpi(mdp, [np.zeros(1, int)], [1.0], CVaR(0.5), start=0, horizon=2)
    assert found.risk == pytest.approx(0.0, abs=1e-6)


def test_steps_and_states_that_cannot_be_are_refused():
    mdp = rasf.FiniteMDP(np.eye(2)[:, None], np.ones((2, 1, 1)), gamma=1.0)
    found = rasf.static_gpi(mdp, [np.zeros(2, int)], [1.0], CVaR(0.5), start=0, horizon=2)
    assert found.action(1, 0, 1.0) == 0
    with pytest.raises(ValueError, match="step must be from 0 to 1, got 2"):
        found.action(2, 0, 0.0)
    with pytest.raises(ValueError, match="state 1 cannot be reached"):
        found.action(1, 1, 0.0)
