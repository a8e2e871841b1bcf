"""Models that are handed on: files with a card, predictions, and exports to other libraries."""

from typing import TYPE_CHECKING

from tacit.core.lazy import lazy_exports

if TYPE_CHECKING:
    from tacit.models.card import Card as Card
    from tacit.models.files import load_model as load_model
    from tacit.models.model import Model as Model

__getattr__, __dir__, __all__ = lazy_exports(__name__, {"card": "Card", "files": "load_model", "model": "Model"})
