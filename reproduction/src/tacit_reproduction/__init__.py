"""The experiments of five texts, run again by name: `tacit reproduce`."""
