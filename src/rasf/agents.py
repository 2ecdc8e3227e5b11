"""The table of agents: the name, learned return distribution, supported risks and constants of every agent.

    sfql, rasfql                    tables: psi (the mean of the discounted sum of features); rasfql also learns the
                                    covariance Sigma of this sum
    rasf-model                      tables: psi and Sigma, computed by planning on a model estimated from all steps
    prql, raprql, q-learning        tables of the scalar return: policy reuse (the first two) and plain Q-learning
    sfc51, rasfc51                  networks: a histogram for every feature
    sfdqn, sfdqn-residual           networks: psi; `sfdqn-residual` also learns Sigma, from temporal differences of psi
    rasfdqn                         networks: psi and a covariance of low rank, for any environment; not in the paper
    rasftd3                         the same for continuous actions: an actor for every policy; not in the paper
    c51, rac51, rac51-relabelled    one network with the task as an input: a histogram of the scalar return; with
                                    `-relabelled`, every step is used for all training tasks

Agents with a `risk_aware_form` are risk-neutral, as in the paper, and raise an error for risks that are not neutral.
Agents that learn only the scalar return make no library.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from rasf.files import Header
from rasf.risk import Entropic, MeanVariance, MonotoneMeanVariance, NestedEntropic, Risk
from rasf.risk.names import is_neutral, risk_to_text


class Family(StrEnum):
    """The form in which policies are stored."""

    TABLES = "tables"
    NETWORKS = "networks"


class LawKind(StrEnum):
    """The kind of return distribution that an agent learns. Files store the values of this enumeration."""

    TABLE = "table"  # tables of psi, and of Sigma if the agent learns Sigma
    HISTOGRAM = "histogram"  # probabilities on atoms, for each feature
    MEAN = "point"  # psi by a network
    MEAN_COVARIANCE = "residual"  # psi and Sigma by networks
    MEAN_LOW_RANK = "log-moments"  # psi and Sigma by networks, Sigma as a diagonal plus a matrix of low rank
    REWARD = "reward"  # the scalar return; agents of this kind make no library


_RISKY = (MeanVariance, Entropic)


@dataclass(frozen=True)
class AgentSpec:
    """The description of an agent, an entry of `AGENTS`.

    Attributes:
        name: The name, as for `rasf.learn`.
        title: The name as the paper writes it.
        family: The form in which the agent's policies are stored.
        law: The kind of return distribution that the agent learns.
        risks: The classes of risks for which the agent can be trained. Default: `MeanVariance`.
        risk_aware_form: For a `neutral` agent (trained for the mean only), the name of the corresponding risk-aware
            agent. None for other agents.
        constants: Settings that differ from the defaults of the family. Default: none.
        plans: Whether the agent plans on a model estimated from all steps, for all risks at once. Default: False.
        of_paper: Whether the defaults of the agent are those of the paper. Default: True.
        continuous: Whether the agent is for actions that are vectors (Box) instead of numbered (Discrete).
    """

    name: str
    title: str
    family: Family
    law: LawKind
    risks: tuple[type[Risk], ...] = (MeanVariance,)
    risk_aware_form: str | None = None
    constants: Header = field(default_factory=dict)
    plans: bool = False
    of_paper: bool = True
    continuous: bool = False

    @property
    def neutral(self) -> bool:
        return self.risk_aware_form is not None

    @property
    def makes_library(self) -> bool:
        return self.law is not LawKind.REWARD

    @property
    def steps_per_task(self) -> int:
        """The default number of training steps per task. For agents of the paper, this is the number in the paper."""
        return {Family.TABLES: 20_000, Family.NETWORKS: 200_000}[self.family] if self.of_paper else 100_000

    def __str__(self) -> str:
        return self.name


_TABLES, _NETWORKS = Family.TABLES, Family.NETWORKS
AGENTS: dict[str, AgentSpec] = {
    spec.name: spec
    for spec in (
        AgentSpec("sfql", "SFQL", _TABLES, LawKind.TABLE, risk_aware_form="rasfql", constants={"covariance": False}),
        AgentSpec("rasfql", "RaSFQL", _TABLES, LawKind.TABLE),
        AgentSpec("rasf-model", "RaSF-model", _TABLES, LawKind.TABLE, (MeanVariance, NestedEntropic), plans=True),
        AgentSpec("q-learning", "Q-learning", _TABLES, LawKind.REWARD, risk_aware_form="raprql"),
        AgentSpec("prql", "PRQL", _TABLES, LawKind.REWARD, risk_aware_form="raprql"),
        AgentSpec("raprql", "RaPRQL", _TABLES, LawKind.REWARD),
        AgentSpec("sfc51", "SFC51", _NETWORKS, LawKind.HISTOGRAM, _RISKY, risk_aware_form="rasfc51"),
        AgentSpec("rasfc51", "RaSFC51", _NETWORKS, LawKind.HISTOGRAM, _RISKY),
        AgentSpec("sfdqn", "SFDQN", _NETWORKS, LawKind.MEAN, _RISKY, "sfdqn-residual"),
        AgentSpec("sfdqn-residual", "SFDQN, residual covariance", _NETWORKS, LawKind.MEAN_COVARIANCE),
        AgentSpec(
            "rasfdqn", "RaSFDQN", _NETWORKS, LawKind.MEAN_LOW_RANK, (MeanVariance, MonotoneMeanVariance),
            of_paper=False,
        ),
        AgentSpec(
            "rasftd3", "RaSFTD3", _NETWORKS, LawKind.MEAN_LOW_RANK, (MeanVariance, MonotoneMeanVariance),
            of_paper=False, continuous=True,
        ),
        AgentSpec("c51", "C51", _NETWORKS, LawKind.REWARD, _RISKY, "rac51"),
        AgentSpec("rac51", "RaC51", _NETWORKS, LawKind.REWARD, _RISKY),
        AgentSpec("rac51-relabelled", "RaC51, relabelled", _NETWORKS, LawKind.REWARD, _RISKY),
    )
}  # fmt: skip


def library_agent(name: str) -> AgentSpec:
    """Return the agent with this name. Raise an error for an agent that makes no library."""
    spec = AGENTS.get(name) if isinstance(name, str) else None
    if spec is None or not spec.makes_library:
        known = ", ".join(each.name for each in AGENTS.values() if each.makes_library)
        raise ValueError(f"agent must be auto or one of {known}, got {name!r}")
    return spec


def check_risks(spec: AgentSpec, risks: Sequence[Risk]) -> None:
    """Raise an error for a risk for which an agent cannot be trained, such as an averse risk for a neutral agent."""
    for risk in risks:
        if not isinstance(risk, Risk):
            raise ValueError(f"risk must be a rasf risk such as MeanVariance(-4.0), or a list of risks, got {risk!r}")
        if spec.neutral and not is_neutral(risk):
            raise ValueError(
                f"agent {spec.name!r} is risk-neutral; for {risk_to_text(risk)} use {spec.risk_aware_form!r}"
            )
        if not isinstance(risk, spec.risks):
            names = " or ".join(kind.__name__ for kind in spec.risks)
            then = "; trained policies of this agent can act for it" if can_act(spec.law, risk) else ""
            raise ValueError(f"risk must be {names} to train {spec.name}, got {risk_to_text(risk)}{then}")


def can_act(law: LawKind, risk: Risk, *, covariance: bool = True) -> bool:
    """Return whether policies with this kind of return distribution can act for a risk.

    Give `covariance=False` if the policies are tables and no covariance was learned.
    """
    form = "independent" if law is LawKind.HISTOGRAM else "moments"
    return is_neutral(risk) or (covariance and law is not LawKind.MEAN and form in risk.supports)


def check_acting(law: LawKind, risk: Risk, *, covariance: bool = True) -> None:
    """Raise an error for a risk for which policies with this kind of return distribution cannot act."""
    if not isinstance(risk, Risk):
        raise ValueError(f"risk must be a rasf risk such as MeanVariance(-4.0), got {risk!r}")
    if can_act(law, risk, covariance=covariance):
        return
    if not covariance or law is LawKind.MEAN:
        raise ValueError(f"risk must be neutral, such as MeanVariance(0), as no covariance was learned, got {risk!r}")
    wanted = "sums of independent features" if law is LawKind.HISTOGRAM else "mean and variance, as MeanVariance does"
    way_out = "; for Entropic train rasfc51, or use Elliptical(beta) for normal returns" * isinstance(risk, Entropic)
    raise ValueError(f"risk must be one that can score {wanted}, got {risk!r}{way_out}")


def acting_risk(risk: Risk) -> Risk:
    """Return the risk for acting, given the risk of planning: `MeanVariance` for `NestedEntropic`, else `risk`."""
    return MeanVariance(risk.beta) if isinstance(risk, NestedEntropic) else risk
