"""Realistic data to look at: agents, guests, branches, forks, compactions, blocks with versions, usage and languages.
Written through the public API, like the data of any application."""

from frontdesk.demo.clock import DemoClock
from frontdesk.demo.fill import LONG_SESSION, Progress, demo_manager, fill

__all__ = ["LONG_SESSION", "DemoClock", "Progress", "demo_manager", "fill"]
