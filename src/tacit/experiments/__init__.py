"""Experiments: configurations, the demonstration, and the texts' own experiments."""

from __future__ import annotations

from tacit.experiments.build import Problem, build
from tacit.experiments.config import Config, load, parse

__all__ = ["Config", "Problem", "build", "load", "parse"]
