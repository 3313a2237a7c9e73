"""What exists only for the paper's tables and figures, and their report."""
