"""Rizk (2023): learning with privacy in federations, in graphs of servers, and without a server."""
