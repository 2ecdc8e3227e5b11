"""The table of agents: what each is called, what it learns, which risks it serves, and with which constants.

    sfql, rasfql                    tables: psi, and for rasfql its covariance
    rasf-model                      tables of psi and its covariance, planned on a model that keeps all experience
    prql, raprql, q-learning        tables of the reward alone (policy reuse, and without it)
    sfc51, rasfc51                  networks: a histogram for every feature
    sfdqn, sfdqn-residual           networks: psi, and for the second its covariance from residuals
    rasfdqn                         networks: psi and its covariance, of low rank; ours, for any environment
    c51, rac51, rac51-relabelled    one network that sees the task: a histogram of the reward alone

The names without `ra` are risk-neutral, as in the paper; asking them for a risk is a contradiction. Agents that learn
no return distribution of the features make no library.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from rasf.files import Header
from rasf.risk import Entropic, MeanVariance, MonotoneMeanVariance, NestedEntropic, Risk
from rasf.risk.names import is_neutral, risk_to_text


class Family(StrEnum):
    """How policies are held."""

    TABLES = "tables"
    NETWORKS = "networks"


class LawKind(StrEnum):
    """What is kept of a return distribution; files name it by these words."""

    TABLE = "table"  # psi, and Sigma where it is learned, per state
    HISTOGRAM = "histogram"  # probabilities on atoms, per feature
    MEAN = "point"  # psi by a network
    MEAN_COVARIANCE = "residual"  # psi and Sigma by networks
    MEAN_LOW_RANK = "log-moments"  # psi and Sigma by networks, Sigma as a diagonal and factors of low rank
    REWARD = "reward"  # of the reward alone: no library


_RISKY = (MeanVariance, Entropic)


@dataclass(frozen=True)
class AgentSpec:
    """An agent.

    title: as the paper writes it. risks: the classes it can be trained for. neutral: it is trained for the mean only,
    and `risk_aware_form` names its risk-aware form. constants: settings that differ from its family's defaults.
    plans: it keeps a model of all experience and plans on it, for all risks at once. of_paper: its defaults are the
    paper's.
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

    @property
    def neutral(self) -> bool:
        return self.risk_aware_form is not None

    @property
    def makes_library(self) -> bool:
        return self.law is not LawKind.REWARD

    @property
    def steps_per_task(self) -> int:
        """As in the paper, where the agent is the paper's."""
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
        AgentSpec("c51", "C51", _NETWORKS, LawKind.REWARD, _RISKY, "rac51"),
        AgentSpec("rac51", "RaC51", _NETWORKS, LawKind.REWARD, _RISKY),
        AgentSpec("rac51-relabelled", "RaC51, relabelled", _NETWORKS, LawKind.REWARD, _RISKY),
    )
}  # fmt: skip


def library_agent(name: str) -> AgentSpec:
    """The agent with this name, which must be one that makes a library."""
    spec = AGENTS.get(name) if isinstance(name, str) else None
    if spec is None or not spec.makes_library:
        known = ", ".join(each.name for each in AGENTS.values() if each.makes_library)
        raise ValueError(f"agent must be auto, {known}, got {name!r}")
    return spec


def check_risks(spec: AgentSpec, risks: Sequence[Risk]) -> None:
    """Refuse risks that contradict an agent's name or that it cannot be trained for."""
    for risk in risks:
        if not isinstance(risk, Risk):
            raise ValueError(f"risk must be a rasf risk such as MeanVariance(-4.0), or several, got {risk!r}")
        if spec.neutral and not is_neutral(risk):
            raise ValueError(
                f"agent {spec.name!r} is risk-neutral; for {risk_to_text(risk)} use {spec.risk_aware_form!r}"
            )
        if not isinstance(risk, spec.risks):
            names = " or ".join(kind.__name__ for kind in spec.risks)
            then = "; it can act, though" if can_act(spec.law, risk) else ""
            raise ValueError(f"risk must be {names} to train {spec.name}, got {risk_to_text(risk)}{then}")


def can_act(law: LawKind, risk: Risk, *, covariance: bool = True) -> bool:
    """Whether policies with this return distribution can act at a risk; a table may have learned no covariance."""
    form = "independent" if law is LawKind.HISTOGRAM else "moments"
    return is_neutral(risk) or (covariance and law is not LawKind.MEAN and form in risk.supports)


def check_acting(law: LawKind, risk: Risk, *, covariance: bool = True) -> None:
    """Refuse a risk that policies with this return distribution cannot act at."""
    if not isinstance(risk, Risk):
        raise ValueError(f"risk must be a rasf risk such as MeanVariance(-4.0), got {risk!r}")
    if can_act(law, risk, covariance=covariance):
        return
    if not covariance or law is LawKind.MEAN:
        raise ValueError(f"risk must be neutral, as MeanVariance(0), where no covariance was learned, got {risk!r}")
    wanted = "sums of independent features" if law is LawKind.HISTOGRAM else "mean and variance, as MeanVariance does"
    way_out = "; for Entropic train rasfc51, or assume a distribution with Elliptical" * isinstance(risk, Entropic)
    raise ValueError(f"risk must be one that can score {wanted}, got {risk!r}{way_out}")


def acting_risk(risk: Risk) -> Risk:
    """The risk of mean and variance that is nearest to one by which policies are planned."""
    return MeanVariance(risk.beta) if isinstance(risk, NestedEntropic) else risk
