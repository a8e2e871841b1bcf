"""The experiments of the five texts, run again by name: `tacit reproduce`."""
