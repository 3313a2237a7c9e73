"""How the weights of a bank come about."""
