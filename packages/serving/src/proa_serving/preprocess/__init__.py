"""Steps before and after a model: images, text for BERT, and Chinese segmentation.

They run in a client, or in a Python model of the server (a step of an ensemble), and
need NumPy alone; images need ``proa-serving[image]``.

>>> from proa_serving.preprocess import (
...     CenterCrop, ChannelsFirst, DecodeImage, Normalize, ResizeShort, Sequential
... )
>>> steps = Sequential(
...     [DecodeImage(), ResizeShort(256), CenterCrop(224), Normalize(), ChannelsFirst()]
... )
>>> x = steps(jpeg)  # doctest: +SKIP
"""

from proa_serving.preprocess.image import (
    CenterCrop,
    ChannelsFirst,
    DecodeImage,
    Normalize,
    Resize,
    ResizeShort,
    Sequential,
)
from proa_serving.preprocess.segment import CharacterIds, words_from_tags
from proa_serving.preprocess.wordpiece import BertTokenizer

__all__ = [
    "Sequential",
    "DecodeImage",
    "Resize",
    "ResizeShort",
    "CenterCrop",
    "Normalize",
    "ChannelsFirst",
    "BertTokenizer",
    "CharacterIds",
    "words_from_tags",
]


def __dir__() -> list[str]:
    return __all__
