"""What users measure their own vectors with: splits, retrieval runs, results, tuning."""
