"""Gauthier (2023): nonsmooth, asynchronous and personalised learning."""
