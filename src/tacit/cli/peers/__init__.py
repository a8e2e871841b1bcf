"""Commands of `tacit peer` beside running one: the authority, a folder to begin with, links."""
