"""Experiments: TOML files checked, built and run; and the demonstration."""

from __future__ import annotations

from tacit.config.experiment import Config, load, parse
from tacit.experiments.build import Problem, build
from tacit.experiments.references import alone

__all__ = ["Config", "Problem", "alone", "build", "load", "parse"]
