"""Averaging with neighbours after a local step."""
