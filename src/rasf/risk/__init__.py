"""Risk measures: objects that turn the distribution of a return into one number. `base` says what they share."""

from rasf.risk.base import Risk as Risk
from rasf.risk.certainty import CertaintyEquivalent as CertaintyEquivalent
from rasf.risk.certainty import Quadratic as Quadratic
from rasf.risk.cvar import CVaR as CVaR
from rasf.risk.cvar import PiecewiseLinear as PiecewiseLinear
from rasf.risk.elliptical import Elliptical as Elliptical
from rasf.risk.elliptical import EllipticalMixture as EllipticalMixture
from rasf.risk.entropic import Entropic as Entropic
from rasf.risk.entropic import NestedEntropic as NestedEntropic
from rasf.risk.mean_variance import MeanVariance as MeanVariance
from rasf.risk.skew_normal import SkewNormal as SkewNormal
