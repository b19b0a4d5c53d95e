"""The landmark encoder: texts in, vectors of texts and of their landmarks out."""

from lmk_integrations.encoder.encoder import LMKEncoder
from lmk_integrations.encoder.records import (
    EncodingCancelled,
    LandmarkEncoding,
    SectionEncoding,
    TextDone,
    TextFailed,
)
from lmk_integrations.encoder.settings import EncoderSettings
from lmk_integrations.encoder.stream import StreamItem

__all__ = [
    "EncoderSettings",
    "EncodingCancelled",
    "LMKEncoder",
    "LandmarkEncoding",
    "SectionEncoding",
    "StreamItem",
    "TextDone",
    "TextFailed",
]
