"""The public names of rasf, each stated once: type checkers read this file, and so does `rasf.__getattr__`."""

from . import envs as envs
from . import risk as risk
from .agents import AgentSpec as AgentSpec
from .envs.gymnasium.description import EnvironmentDescription as EnvironmentDescription
from .envs.gymnasium.recorder import Recorder as Recorder
from .envs.gymnasium.single import FeatureReward as FeatureReward
from .envs.gymnasium.single import Step as Step
from .library.actor import Actor as Actor
from .library.evaluation import Comparison as Comparison
from .library.evaluation import Report as Report
from .library.file import load as load
from .library.frozen_policies import Explanation as Explanation
from .library.learn import learn as learn
from .library.logs.estimate import Estimate as Estimate
from .library.logs.learn import learn_from as learn_from
from .library.logs.log import Coverage as Coverage
from .library.logs.log import Log as Log
from .library.policy_library import PolicyLibrary as PolicyLibrary
from .library.policy_library import SourcePolicy as SourcePolicy
from .library.policy_library import merge as merge
from .library.progress import TrainingProgress as TrainingProgress
from .library.weights import WeightEstimate as WeightEstimate
from .library.weights import WeightLearner as WeightLearner
from .library.weights import infer_weights as infer_weights
from .mdp import FiniteMDP as FiniteMDP
from .planning.certificate import Certificate as Certificate
from .planning.certificate import certificate as certificate
from .planning.moments import Moments as Moments
from .planning.moments import successor_moments as successor_moments
from .planning.plan import Plan as Plan
from .planning.plan import evaluate_policy as evaluate_policy
from .planning.plan import plan as plan
from .planning.simulate import Rollouts as Rollouts
from .planning.simulate import simulate as simulate
from .planning.static import StaticPlan as StaticPlan
from .planning.static import plan_static as plan_static
from .planning.static import static_gpi as static_gpi
from .risk import CVaR as CVaR
from .risk import Elliptical as Elliptical
from .risk import Entropic as Entropic
from .risk import MeanVariance as MeanVariance
from .risk import NestedEntropic as NestedEntropic
from .risk import Risk as Risk
from .statistics import Interval as Interval
from .transfer import Choice as Choice
from .transfer import gpe as gpe
from .transfer import gpi as gpi
from .transfer import gpi_policy as gpi_policy

__version__: str
__all__: list[str]
