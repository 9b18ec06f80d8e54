"""Tacit: decision policies from people's trajectories, under a differential-privacy guarantee that holds."""
