"""Exact mean and covariance of a policy's feature return.

    psi(s, a)   = E[phi + gamma psi(s', pi(s'))]
    Sigma(s, a) = E[delta delta' + gamma^2 Sigma(s', pi(s'))],    delta = phi + gamma psi(s', pi(s')) - psi(s, a)

These are the covariance Bellman equations, episodic and discounted; delta' is the transpose. With a horizon of n
decisions the tables are indexed by the decision. Without a horizon the tables solve a linear system. Sigma is the full
d x d covariance.
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
_NEARLY_CERTAIN = 2  # with up to this many successors per state on average, factors are as sparse as the chain


def successor_moments(mdp: FiniteMDP, policy: npt.ArrayLike, horizon: int | None = None) -> Moments:
    """Compute the mean and covariance of a policy's discounted feature return.

    Args:
        mdp: The dynamics and features.
        policy: Actions (S,), or with a horizon (horizon, S). For gamma below 1 without a horizon also (K + 1, S), as
            planned with `Entropic`: its last row applies to all later decisions. The moments are those at the first
            decision.
        horizon: The number of decisions. Default: none, which needs gamma below 1 or a policy that ends with
            probability one.

    Returns:
        psi (S, A, d) and Sigma (S, A, d, d) of taking a in s and following the policy afterwards. With a horizon both
        have a leading axis for the decision.

    Raises:
        ValueError: An argument does not fit, or at gamma = 1 without a horizon the policy may never end.
    """
    require_mdp(mdp)
    return feature_moments(mdp, mdp.phi, policy, horizon)


def feature_moments(mdp: FiniteMDP, phi: Floats, policy: npt.ArrayLike, horizon: int | None) -> Moments:
    """Return `successor_moments` of other features phi (n, d), aligned with the stored transitions."""
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
    """Return moments at the first decision of a policy (K + 1, S) whose last row applies for ever."""
    psi, Sigma = feature_moments(mdp, phi, policy[-1], None)
    states, d = np.arange(mdp.n_states), phi.shape[1]
    last = psi[states, policy[-1]], Sigma[states, policy[-1]].reshape(mdp.n_states, d * d)
    steps = _over_horizon(mdp, phi, expect, policy[:-1], last) if len(policy) > 1 else Moments(psi[None], Sigma[None])
    return Moments(steps.psi[0], steps.Sigma[0])


def _over_horizon(
    mdp: FiniteMDP, phi: Floats, expect: sp.csr_array, policy: Ints, after: tuple[Floats, Floats] | None = None
) -> Moments:
    """Return moments at each decision of a policy (n, S); `after` has those after its end (default: 0)."""
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
    """Return psi (S A, d) and E[delta delta'] (S A, d d), given psi_own (S, d) of the policy's own actions."""
    target = phi + mdp.gamma * psi_own[mdp.successor]
    psi = expect @ target
    delta = target - np.repeat(psi, np.diff(mdp.indptr), axis=0)
    outer = (delta[:, :, None] * delta[:, None, :]).reshape(len(delta), phi.shape[1] ** 2)
    return psi, expect @ outer


def _solve(chain: sp.csr_array, discount: float, constant: Floats) -> Floats:
    """Solve x = constant + discount chain x, by factorisation if the factors stay small, else by iteration."""
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
