"""Damaged and lying files against every reader; ``python -m tests.fuzz --n 100000`` runs as many as one likes."""
