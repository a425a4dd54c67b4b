"""How sure a decision is: conformal sets of yes and no, calibrated probabilities, and their error."""

from __future__ import annotations

from labelgap.confidence.calibration import CalibrationError
from labelgap.confidence.conformal import GUARANTEES, ConformalScores, SetCuts
from labelgap.confidence.reliability import calibration_error

__all__ = ["GUARANTEES", "CalibrationError", "ConformalScores", "SetCuts", "calibration_error"]
