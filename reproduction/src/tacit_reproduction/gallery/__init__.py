"""Gallery: all studies in one go, and the pages of their results."""

from tacit_reproduction.gallery.pages import write_pages
from tacit_reproduction.gallery.schedule import Finished, judge_all, reproduce_all

__all__ = ["Finished", "judge_all", "reproduce_all", "write_pages"]
