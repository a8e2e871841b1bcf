"""`tacit peer epoch`: running peers agree on the next epoch of their job."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tacit.cli.common import reported, say
from tacit.cli.peers.running import ConfigFile, told
from tacit.core.errors import ConfigError


@reported
def epoch(
    file: ConfigFile,
    following: Annotated[Path, typer.Option("--next", help="Its file of the next epoch, or the job's if it leaves.")],
) -> None:
    """Have a running peer go on to the next epoch of its job, with other members or links, when all have agreed.

    Ask every member of the epoch that runs, those who leave too. State, rounds and the rest of the budget go on.
    """
    if not following.is_file():
        raise ConfigError(f"--next {following}: there is no such file; name the peer's file of the next epoch")
    found = told(file, act="epoch", next=str(following.resolve()))["next_epoch"]
    number, missing = found["epoch"], found["missing"]
    if found["last_round"] is not None:
        say(f"agreed: round {found['last_round']} is the last before epoch {number}")
    else:
        say(f"proposed: epoch {number}, after round {max(found['proposed'].values())} or later")
        say(f"not heard yet: {', '.join(missing)}; `tacit peer status {file}` shows it (next_epoch)")
    rest = "it ends then, and its ledger stays" if found["leaves"] else f"from then on start it with {following}"
    say(f"leave {following} and its job as they are until then; {rest}")
