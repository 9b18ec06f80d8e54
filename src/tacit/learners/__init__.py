"""Learners read releases, plan, and return policies. They never see a trajectory.

The room's rule is in force from the first day (import-linter): `tacit.releases`, `tacit.mdp.spec` and
`tacit.mdp.planning` may be imported here, statistics, privatizers, mechanisms and worlds may not.
"""
