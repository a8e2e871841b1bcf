"""Federated averaging: one server, many servers, importance sampling."""
