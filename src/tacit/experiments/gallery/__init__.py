"""All experiments of the texts in one go, and the pages that show what came out."""

from tacit.experiments.gallery.pages import write_pages
from tacit.experiments.gallery.schedule import Finished, Watcher, reproduce_all
from tacit.experiments.gallery.texts import TEXTS, Text

__all__ = ["TEXTS", "Finished", "Text", "Watcher", "reproduce_all", "write_pages"]
