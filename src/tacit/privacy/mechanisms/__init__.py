"""One module per mechanism: its derivation, and its privacy map in both directions, rounded against us."""
