"""Scaffolds: files to begin with, made by `tacit new` and `tacit init`. They are valid, and nothing is overwritten."""
