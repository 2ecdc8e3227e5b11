"""Exact mean and covariance of a policy's feature return, the discounted sum of features.

    psi(s, a)   = E[phi + gamma psi(s', pi(s'))]
    Sigma(s, a) = E[delta delta' + gamma^2 Sigma(s', pi(s'))],    delta = phi + gamma psi(s', pi(s')) - psi(s, a)

These are the Bellman equations of the mean and covariance for a policy pi. delta' is the transpose of delta, and Sigma
is the full d x d covariance for d features. With a horizon, the tables are indexed by the decision. Without a horizon,
the tables solve a linear system. Shapes: S states, A actions, n stored transitions (of phi) or n decisions.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import scipy.sparse.linalg as splinalg

from rasf.arrays import Floats, Ints
from rasf.checks import decisions
from rasf.mdp import FiniteMDP, as_actions, require_mdp
from rasf.planning.bellman import WINDOW, remaining_change
from rasf.planning.undiscounted import DIRECT_SOLVE_STATES, ends_surely, states_text
from rasf.transfer import Moments

_SOLVE_TOLERANCE = 1e-12
_NEARLY_CERTAIN = 2  # up to this mean number of successors per state, matrix factors are sparse even for large chains


def successor_moments(mdp: FiniteMDP, policy: npt.ArrayLike, horizon: int | None = None) -> Moments:
    """Compute the mean and covariance of a policy's discounted feature return.

    Args:
        mdp: The dynamics and features.
        policy: Actions (S,), or (horizon, S) with a horizon. For gamma below 1 without a horizon, a policy of
            `plan` with `Entropic` is also accepted: it has a row for each decision (K + 1, S), and the last row
            applies to all later decisions. The moments are then those at the first decision.
        horizon: The number of decisions. Default: none, which needs gamma below 1 or a policy that ends with
            probability one.

    Returns:
        psi (S, A, d) and Sigma (S, A, d, d) of taking action a in state s and following the policy afterwards. With a
        horizon, both arrays have a leading axis for the decision.

    Raises:
        ValueError: An argument is invalid, or the policy may never end (gamma = 1 without a horizon).
    """
    require_mdp(mdp)
    return feature_moments(mdp, mdp.phi, policy, horizon)


def feature_moments(mdp: FiniteMDP, phi: Floats, policy: npt.ArrayLike, horizon: int | None) -> Moments:
    """Return the moments that `successor_moments` describes, for features `phi` (n, d) of the stored transitions."""
    if horizon is not None:
        decisions("horizon", horizon, mdp.n_states * mdp.n_actions * phi.shape[1] ** 2)
    expect = sp.csr_array(
        (mdp.probability, np.arange(len(mdp.successor)), mdp.indptr), shape=(len(mdp.indptr) - 1, len(mdp.successor))
    )
    if horizon is not None:
        return _over_horizon(mdp, phi, expect, mdp.policy(policy, horizon))
    given = as_actions(policy)
    if given.ndim == 2 and mdp.gamma < 1:
        return _then_for_ever(mdp, phi, expect, mdp.policy(given, len(given)))
    actions = mdp.policy(given)
    if mdp.gamma == 1.0:
        endless = ~ends_surely(mdp, actions)
        if endless.any():
            raise ValueError(
                f"the policy may never end from states {states_text(endless)}, so its feature return has no finite "
                "moments; use a horizon or gamma < 1"
            )
    own_rows = np.arange(mdp.n_states) * mdp.n_actions + actions
    chain = sp.csr_array((expect.data, mdp.successor, mdp.indptr), shape=(expect.shape[0], mdp.n_states))[own_rows]
    psi_own = _solve(chain, mdp.gamma, (expect @ phi)[own_rows])
    psi, spread = _one_step(mdp, phi, expect, psi_own)
    Sigma_own = _solve(chain, mdp.gamma**2, spread[own_rows])
    return _shaped(mdp, psi, spread + mdp.gamma**2 * (expect @ Sigma_own[mdp.successor]))


def _then_for_ever(mdp: FiniteMDP, phi: Floats, expect: sp.csr_array, policy: Ints) -> Moments:
    """Return the moments at the first decision of a policy (K + 1, S) whose last row applies to all later decisions."""
    psi, Sigma = feature_moments(mdp, phi, policy[-1], None)
    states, d = np.arange(mdp.n_states), phi.shape[1]
    last = psi[states, policy[-1]], Sigma[states, policy[-1]].reshape(mdp.n_states, d * d)
    steps = _over_horizon(mdp, phi, expect, policy[:-1], last) if len(policy) > 1 else Moments(psi[None], Sigma[None])
    return Moments(steps.psi[0], steps.Sigma[0])


def _over_horizon(
    mdp: FiniteMDP, phi: Floats, expect: sp.csr_array, policy: Ints, after: tuple[Floats, Floats] | None = None
) -> Moments:
    """Return the moments at each decision of a policy (n, S).

    `after` contains psi (S, d) and Sigma (S, d d) after the last decision. Default: zeros.
    """
    d = phi.shape[1]
    psi_own, Sigma_own = after or (np.zeros((mdp.n_states, d)), np.zeros((mdp.n_states, d * d)))
    steps = []
    for actions in policy[::-1]:
        psi, spread = _one_step(mdp, phi, expect, psi_own)
        Sigma = spread + mdp.gamma**2 * (expect @ Sigma_own[mdp.successor])
        own_rows = np.arange(mdp.n_states) * mdp.n_actions + actions
        psi_own, Sigma_own = psi[own_rows], Sigma[own_rows]
        steps.append(_shaped(mdp, psi, Sigma))
    return Moments(np.stack([step.psi for step in steps[::-1]]), np.stack([step.Sigma for step in steps[::-1]]))


def _one_step(mdp: FiniteMDP, phi: Floats, expect: sp.csr_array, psi_own: Floats) -> tuple[Floats, Floats]:
    """Return psi (S A, d) and E[delta delta'] (S A, d d), given `psi_own` (S, d), the psi of the policy's actions."""
    target = phi + mdp.gamma * psi_own[mdp.successor]
    psi = expect @ target
    delta = target - np.repeat(psi, np.diff(mdp.indptr), axis=0)
    outer = (delta[:, :, None] * delta[:, None, :]).reshape(len(delta), phi.shape[1] ** 2)
    return psi, expect @ outer


def _solve(chain: sp.csr_array, discount: float, constant: Floats) -> Floats:
    """Return the solution of x = constant + discount * chain x, by factorisation or (for large chains) by iteration."""
    n = chain.shape[0]
    if n <= DIRECT_SOLVE_STATES or chain.nnz <= _NEARLY_CERTAIN * n:
        return splinalg.splu(sp.csc_array(sp.eye_array(n) - discount * chain)).solve(constant)
    x, earlier = constant, np.zeros_like(constant)
    while True:
        for _ in range(WINDOW):
            new = constant + discount * (chain @ x)
            change = np.abs(new - x)
            x = new
        if (remaining_change(change, earlier, x) <= _SOLVE_TOLERANCE * np.abs(x)).all():
            return x
        earlier = change


def _shaped(mdp: FiniteMDP, psi: Floats, Sigma: Floats) -> Moments:
    d = psi.shape[1]
    return Moments(psi.reshape(mdp.n_states, mdp.n_actions, d), Sigma.reshape(mdp.n_states, mdp.n_actions, d, d))
