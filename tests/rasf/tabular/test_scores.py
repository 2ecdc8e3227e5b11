"""The cached best scores equal a recomputation from scratch after every step of random histories."""

import numpy as np
import pytest
from sfql_twin import Twin
from tabular_kernel import Kernel, contents, make_rule

from rasf.tabular import sfql
from rasf.tabular.scores import best_action, ensure_fresh, greedy, greedy_of_slot
from rasf.tabular.table import VERSION, SigmaForm, add_row
from rasf.transfer import gpi


def all_scores(values, coef, d):
    """Scores (policies, A) of values (policies, m, A), summed in the table's order so that ties are exact ties."""
    m = len(coef)
    whole = m - (m - d) % 3
    strands = np.zeros((4, len(values), values.shape[2]))
    for k in range(m):
        strand = 0 if k < d else 1 + (k - d) % 3 if k < whole else 1
        strands[strand] += coef[k] * values[:, k]
    return strands[0] + ((strands[1] + strands[2]) + strands[3])


def assert_cache_is_exact(kernel):
    """Every row whose cache claims to hold for the present w, against all policies one by one."""
    table, coef = kernel.table, kernel.memory.coef[kernel.t]
    values, fresh = kernel.contents(), 0
    for row in range(table.used[0]):
        if table.row[row, VERSION] != kernel.version:
            continue
        fresh += 1
        scores = all_scores(values[row], coef, len(table.features))
        exact = table.exact_version[row] == kernel.version
        np.testing.assert_array_equal(table.best[row, exact], scores.max(0)[exact])
        np.testing.assert_array_equal(table.best_policy[row, exact], scores.argmax(0)[exact])  # the lowest policy
        assert (scores.max(0)[~exact] < scores.max()).all()
        assert (table.best[row, ~exact] < scores.max()).all()
        driver, action = np.unravel_index(scores.argmax(), scores.shape)  # by rows: lowest policy, then lowest action
        assert greedy(table, row)[:2] == (action, driver)
        assert best_action(table, row) == gpi(scores).policy
    return fresh


def at_rate(memory, alpha_w):
    return memory._replace(rule=memory.rule._replace(alpha_w=alpha_w))


class History:
    """Random events, fed to the table and to plain tables alike; rows are the states."""

    def __init__(self, rule, d, n_actions, seed, coarse):
        self.rng, self.rule, self.d, self.A, self.coarse = np.random.default_rng(seed), rule, d, n_actions, coarse
        self.kernel = Kernel(rule, d, n_actions, 12)
        self.twin = Twin(rule, d, n_actions, self.kernel.table.value.dtype)
        self.start_task()
        for _ in range(3):
            self.add_row()

    def weights(self):
        # coarse numbers make exact ties between different policies and actions
        return self.rng.integers(-1, 2, self.d) / 2 if self.coarse else self.rng.normal(size=self.d)

    def start_task(self):
        if self.kernel.t + 1 < 12:
            w = self.weights()
            self.kernel.start_task(w)
            self.twin.start_task(w)

    def add_row(self):
        if self.kernel.table.used[0] < 8:
            self.kernel.make_room(1)
            self.twin.see(add_row(self.kernel.table, self.rule, self.kernel.t))

    def change_weights(self):
        # from large moves to the last bits: scores may be kept while w has hardly moved
        rate = 0.5 if self.coarse else 0.5 ** self.rng.choice([1, 4, 7, 10, 14, 20, 40, 50])
        phi, reward = np.eye(self.d)[self.rng.integers(self.d)], float(self.rng.integers(-1, 2))
        sfql.learn_weights(at_rate(self.kernel.memory, rate), self.kernel.t, phi, reward)
        self.twin.learn_weights(phi, reward, rate)

    def learn(self):
        k, rng = self.kernel, self.rng
        k.make_room(1)
        row = int(rng.integers(k.table.used[0]))
        chosen = sfql.choose(k.memory, k.t, row)
        action, driver, _ = chosen
        scores = all_scores(k.contents()[row], k.memory.coef[k.t], len(k.table.features))
        assert (driver, action) == np.unravel_index(scores.argmax(), scores.shape)
        if rng.random() < 0.4:
            action = int(rng.integers(self.A))
        if rng.random() < 0.3:  # as in a step: w changes between the choice and the update
            self.change_weights()
        phi = rng.integers(0, 2, self.d).astype(float)
        where = rng.random()
        next_row = row if where < 0.3 else -1 if where < 0.4 else int(rng.integers(k.table.used[0]))
        sfql.learn(at_rate(k.memory, 0.0), k.t, row, action, chosen, phi, 0.0, next_row)
        self.twin.learn(row, action, driver, phi, None if next_row < 0 else next_row)

    def refresh_all(self):
        k = self.kernel
        for row in range(k.table.used[0]):
            ensure_fresh(k.table, k.rule, row, k.memory.coef[k.t], k.memory.now)

    def step(self):
        events = (self.learn, self.change_weights, self.add_row, self.refresh_all)
        self.rng.choice(events, p=(0.72, 0.1, 0.05, 0.13))()

    def assert_same_numbers(self):
        plain = [[table[row].flat() for table in self.twin.policies] for row in range(len(self.twin.order))]
        np.testing.assert_array_equal(self.kernel.contents(), np.array(plain))


@pytest.mark.parametrize("n_actions", [4, 3])  # four actions take a path of their own
@pytest.mark.parametrize("sigma", [SigmaForm.NONE, SigmaForm.DIAGONAL, SigmaForm.FULL])
@pytest.mark.parametrize("noise", ["independent", "shared", "none"])
def test_cache_and_numbers_after_every_event(n_actions, sigma, noise):
    checked = 0
    for seed in range(2):
        # without noise also coarse numbers, where every rounding is exact for a while: ties abound
        coarse = noise == "none"
        rule = make_rule(
            gamma=0.5 if coarse else 0.9,
            alpha_sigma=0.5,
            variance_weight=-0.5,
            sigma=sigma,
            noise_scale=0.0 if coarse else 0.3,
            shared_noise=noise == "shared",
        )
        history = History(rule, 3, n_actions, seed, coarse)
        for n in range(150):
            history.step()
            if n % 25 == 0:
                history.start_task()
            checked += assert_cache_is_exact(history.kernel)
        history.assert_same_numbers()
        assert min(history.twin.bumps, history.twin.other_drivers) > 15
    assert checked > 500


@pytest.mark.parametrize("shared", [True, False])
def test_greedy_of_one_policy_ignores_the_others(shared):
    history = History(make_rule(shared_noise=shared, noise_scale=0.3), 3, 4, 5, False)
    for n in range(80):
        history.step()
        if n % 20 == 0:
            history.start_task()
    k, coef = history.kernel, history.rng.normal(size=(6, history.kernel.m))
    values = contents(k.table, k.rule, k.t + 1, k.m)
    for row in range(k.table.used[0]):
        for policy in range(k.t + 1):
            for c in coef:
                slot = sfql.find_policy(k.table, row, policy)
                assert (
                    greedy_of_slot(k.table, k.rule, row, slot, c)
                    == all_scores(values[row], c, len(k.table.features))[policy].argmax()
                )


def test_weights_that_do_not_change_keep_the_caches():
    history = History(make_rule(), 3, 4, 0, False)
    k = history.kernel
    history.refresh_all()
    before = k.version
    exact = float(k.memory.w[k.t, 1])
    sfql.learn_weights(k.memory, k.t, np.array([0.0, 1.0, 0.0]), exact)
    assert k.version == before
    assert assert_cache_is_exact(k) == k.table.used[0]
    sfql.learn_weights(k.memory, k.t, np.array([0.0, 1.0, 0.0]), exact + 1)
    assert k.version == before + 1
    assert assert_cache_is_exact(k) == 0


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_noise_counts_under_coefficients_of_any_size(scale):
    """A roll-out scores with weights of its own, of which `now` knows only the version."""
    history = History(make_rule(noise_scale=0.01), 3, 4, 2, False)
    k = history.kernel
    for _ in range(8):
        history.start_task()
        history.add_row()
    rng, by_noise = np.random.default_rng(0), 0
    for _ in range(20):
        k.memory.coef[k.t] = scale * rng.normal(size=k.m)
        k.memory.now[:2] += 1
        history.refresh_all()
        assert assert_cache_is_exact(k) == k.table.used[0]
        by_noise += sum(greedy(k.table, row)[2] < 0 for row in range(k.table.used[0]))
    assert by_noise > 20
