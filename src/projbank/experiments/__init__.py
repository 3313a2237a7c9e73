"""The paper's experiments as protocols that anyone can run: splits, cells, result files, tables."""
