"""Optional libraries, imported where they are used."""

from __future__ import annotations

import importlib
from types import ModuleType

from tacit.core.errors import ConfigError


def require(module: str, extra: str, purpose: str = "this") -> ModuleType:
    """Import an optional library, or say which extra brings it.

    Args:
      module: Name to import, e.g. ``"dp_accounting"`` or ``"matplotlib.figure"``.
      extra: The extra of tacit that lists the library.
      purpose: Subject of the error's sentence, e.g. ``"rule 'rdp'"``.

    Returns:
      The module.

    Raises:
      ConfigError: The library is not installed. A fault inside an installed library is passed on as it is.

    Example:
      >>> require("json", extra="accounting").dumps([1])
      '[1]'
      >>> require("no_such_library", extra="accounting", purpose="rule 'rdp'")
      Traceback (most recent call last):
      tacit.core.errors.ConfigError: rule 'rdp' needs no_such_library: pip install 'tacit[accounting]'
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        top = module.partition(".")[0]
        if error.name is None or error.name.partition(".")[0] != top:
            raise
        raise ConfigError(f"{purpose} needs {top}: pip install 'tacit[{extra}]'") from error
