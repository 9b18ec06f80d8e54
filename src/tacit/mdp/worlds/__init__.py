"""Worlds that come with Tacit, one module per family; all of them are re-exported by `tacit.mdp`."""
