"""Where long vectors come from: one way to read them, whatever holds them."""
