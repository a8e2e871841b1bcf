"""Peers made of files: jobs and peers from TOML, and whole experiments as processes on this machine."""
