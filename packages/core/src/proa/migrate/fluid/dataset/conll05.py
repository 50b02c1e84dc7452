"""Semantic roles: words, five words around the verb, the verb, a mark, the roles."""

from __future__ import annotations

from pathlib import Path

from proa.migrate.fluid.dataset.readers import Reader, id_lists, reader_of
from proa.text import Conll05st


def get_dict() -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
    """The dictionaries of words, verbs and roles."""
    return Conll05st().get_dict()


def get_embedding() -> Path:
    """The path of the vectors of words."""
    return Conll05st().get_embedding()


def test() -> Reader:
    """The reader of the sentences, all of which 1.x trained with."""
    return reader_of(Conll05st(), id_lists)
