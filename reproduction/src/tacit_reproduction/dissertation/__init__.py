"""Studies of the dissertation: private mirror descent, budgets, moving targets, a network without a server."""
