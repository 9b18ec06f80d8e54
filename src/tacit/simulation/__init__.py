"""Simulations: an agent in a world, many runs, exact regret; and grids of them."""

from tacit.simulation.engines import Engine, Processes, Serial
from tacit.simulation.results import Result
from tacit.simulation.run import simulate
from tacit.simulation.sweeps import Cell, Sweep, grid, sweep

__all__ = ["Cell", "Engine", "Processes", "Result", "Serial", "Sweep", "grid", "simulate", "sweep"]
