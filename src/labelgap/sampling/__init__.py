"""Sampling: which labels get observed, how uneven that is, and weights that make up for it."""

from labelgap.sampling.model import SamplingModel, Spread
from labelgap.sampling.models import Bounded, Popular, Uniform
from labelgap.sampling.positive import PositiveBiased
from labelgap.sampling.propensity import PropensityEstimate, estimate_propensities
from labelgap.sampling.spread import SpreadEstimate, estimate_mu_nu
from labelgap.sampling.weights import Propensities, inverse_propensity_weights

__all__ = [
    "Bounded",
    "Popular",
    "PositiveBiased",
    "Propensities",
    "PropensityEstimate",
    "SamplingModel",
    "Spread",
    "SpreadEstimate",
    "Uniform",
    "estimate_mu_nu",
    "estimate_propensities",
    "inverse_propensity_weights",
]
