"""How well an encoder finds documents: retrieval sets, methods to compare, and their figures."""

from lmk_integrations.evaluation.dataset import Half, RetrievalSet, load_beir
from lmk_integrations.evaluation.evaluate import Result, difference, evaluate
from lmk_integrations.evaluation.methods import DEFAULT_METHODS
from lmk_integrations.evaluation.metrics import METRICS, Estimate

__all__ = [
    "DEFAULT_METHODS",
    "METRICS",
    "Estimate",
    "Half",
    "Result",
    "RetrievalSet",
    "difference",
    "evaluate",
    "load_beir",
]
