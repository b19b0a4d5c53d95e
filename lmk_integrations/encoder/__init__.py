"""The landmark encoder: texts in, vectors of texts and of their landmarks out."""

from lmk_integrations.encoder.encoder import LMKEncoder
from lmk_integrations.encoder.plain import PlainEncoder
from lmk_integrations.encoder.protocol import DocumentEncoder
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
    "DocumentEncoder",
    "EncoderSettings",
    "EncodingCancelled",
    "LMKEncoder",
    "LandmarkEncoding",
    "PlainEncoder",
    "SectionEncoding",
    "StreamItem",
    "TextDone",
    "TextFailed",
]
