"""Configuration: experiments, jobs and peers as TOML files, checked and turned into objects."""
