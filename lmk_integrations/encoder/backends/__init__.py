"""Backends: token ids of windows in, the wanted rows of hidden states out."""

from lmk_integrations.encoder.backends.base import Backend, WindowInput

__all__ = ["Backend", "WindowInput"]
