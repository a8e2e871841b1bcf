"""Alternating directions over a graph, under zCDP."""
