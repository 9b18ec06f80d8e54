"""Agents: a learner and a privatizer put together, for people who come one after the other."""

from tacit.online.agent import Agent, agent_from_json, load
from tacit.online.desk import Ticket
from tacit.online.session import Session
from tacit.online.ucb import UCBPO, UCBVI, OptimisticAgent
from tacit.privatizers import BudgetExhausted

__all__ = [
    "UCBPO",
    "UCBVI",
    "Agent",
    "BudgetExhausted",
    "OptimisticAgent",
    "Session",
    "Ticket",
    "agent_from_json",
    "load",
]
