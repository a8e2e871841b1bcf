"""Gallery: all experiments in one go, and the pages of their results."""

from tacit_reproduction.gallery.pages import write_pages
from tacit_reproduction.gallery.schedule import Finished, Watcher, reproduce_all
from tacit_reproduction.gallery.texts import TEXTS, Text

__all__ = ["TEXTS", "Finished", "Text", "Watcher", "reproduce_all", "write_pages"]
