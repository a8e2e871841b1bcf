"""Push-sum: learning over one-way links."""
