"""What was learnt: arrays, and how rows become margins and bits."""
