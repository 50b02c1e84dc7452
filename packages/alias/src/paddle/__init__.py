"""Proa by the name of PaddlePaddle: this module is replaced by `proa` itself."""

from proa import install_as_paddle

__proa_alias__ = True

install_as_paddle()
