"""Commands killed at random moments; ``python -m tests.kill --n 200`` kills as often as one likes."""
