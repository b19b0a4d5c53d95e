"""What the framework adapters share: the encoder's options as fields, and one async worker."""

from lmk_integrations._adapters.fields import EncoderFields, EncoderOptions
from lmk_integrations._adapters.worker import Cancelled, Worker

__all__ = ["Cancelled", "EncoderFields", "EncoderOptions", "Worker"]
