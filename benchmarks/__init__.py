"""Benchmarks: one file per question, ratios measured in one run, results as files with machine and date."""
