"""An index under long random use, compared with NumPy after every step; ``python -m tests.soak --n 100000``."""
