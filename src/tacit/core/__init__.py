"""The lowest layer: the contract between methods and runtimes, errors, and limits on inputs.

- `contract`: `Algorithm`, `Phase`, `Objective`; it re-exports `messages` (views, outboxes, inboxes) and `mechanism`.
- `inbox`: an inbox whose entries are stacked arrays.
- `errors`, `limits`, `checks`, `text`: every error that is raised on purpose, limits on memory and rounds, checks of
  settings, text fit to be shown.
"""
