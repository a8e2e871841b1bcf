"""Members that come and go within an epoch: the book of links, what is said about them, and who may be let in."""
