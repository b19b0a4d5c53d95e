"""LandmarkNodeParser: documents -> passages that come with their contextual vectors."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from llama_index.core.callbacks import CallbackManager
from llama_index.core.node_parser import NodeParser
from llama_index.core.node_parser.node_utils import default_id_func
from llama_index.core.schema import BaseNode, Document, NodeRelationship, TextNode
from llama_index.core.utils import get_tqdm_iterable
from pydantic import ConfigDict, Field
from typing_extensions import Self

from lmk_integrations._adapters import Cancelled
from lmk_integrations.core.pooling import passage_vectors
from lmk_integrations.core.runs import even_runs
from lmk_integrations.encoder import LandmarkEncoding
from lmk_integrations.errors import ConfigError
from lmk_integrations.llama_index.embedding import LMKEmbedding
from lmk_integrations.llama_index.handover import HANDOVER
from lmk_integrations.llama_index.landmarks import landmarks_within, text_of

DEFAULT_PASSAGE_TOKENS = 128

_NAMESPACE = uuid.UUID("5d9a4c1e-0c0b-5a35-b1f3-8a7de2f64c10")
# What a passage inherits of how its document is shown; TextNode does not have all of a Node's.
_SHOWN = (
    "excluded_embed_metadata_keys",
    "excluded_llm_metadata_keys",
    "metadata_template",
    "metadata_separator",
    "text_template",
)


class LandmarkNodeParser(NodeParser):
    """Cuts documents in passages between landmarks, from one pass over each document.

    A passage is a run of landmarks; its embedding is their mean, so it knows the document around
    it, and nothing embeds it a second time: not VectorStoreIndex, not an IngestionPipeline. Its
    landmarks wait for `LMKVectorStore.add`. With ``LMKEmbedding(granularity="sentence")`` passages
    begin and end where sentences do.

    embed_model: an `LMKEmbedding`; None: the shipped default. Queries need the same one.
    passage_tokens: a passage's most tokens (a longer landmark chunk stays whole); a document's
        passages are about equally long.
    include_metadata, include_prev_next_rel, callback_manager, id_func: as in `NodeParser`; without
        an id_func a node's id is a UUID of document, place, text and vector space, so that the
        same document gives the same nodes. (LlamaIndex gives a Document without id a random one.)

    Metadata is not embedded. Offsets are exact, in the text of the SOURCE document.
    """

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    embed_model: LMKEmbedding = Field(description="Encodes the documents.")
    passage_tokens: int = Field(default=DEFAULT_PASSAGE_TOKENS, ge=1, description="At most.")

    def __init__(
        self,
        embed_model: LMKEmbedding | None = None,
        *,
        passage_tokens: int = DEFAULT_PASSAGE_TOKENS,
        include_metadata: bool = True,
        include_prev_next_rel: bool = True,
        callback_manager: CallbackManager | None = None,
        id_func: Callable[[int, BaseNode], str] | None = None,
    ) -> None:
        if embed_model is not None and not isinstance(embed_model, LMKEmbedding):
            raise ConfigError(
                f"embed_model={embed_model!r} must be an LMKEmbedding: only that has landmarks"
            )
        fields: dict[str, Any] = {
            "embed_model": LMKEmbedding() if embed_model is None else embed_model,
            "passage_tokens": passage_tokens,
            "include_metadata": include_metadata,
            "include_prev_next_rel": include_prev_next_rel,
            "callback_manager": callback_manager or CallbackManager([]),
            "id_func": id_func or default_id_func,
        }
        super().__init__(**fields)

    @classmethod
    def class_name(cls) -> str:
        """The name in serialised form."""
        return "LandmarkNodeParser"

    def to_dict(self, **kwargs: Any) -> dict[str, Any]:
        """The configuration, with the encoder's fingerprint: IngestionCache makes keys of it."""
        return {**super().to_dict(**kwargs), "embed_model": self.embed_model.to_dict()}

    @classmethod
    def from_dict(cls, data: dict[str, Any], **kwargs: Any) -> Self:
        """The opposite of `to_dict`; an id_func is not part of it and must be given again."""
        fields = {key: value for key, value in data.items() if key not in ("class_name", "id_func")}
        if isinstance(fields.get("embed_model"), dict):
            fields["embed_model"] = LMKEmbedding.from_dict(fields["embed_model"])
        return cls(**{**fields, **kwargs})

    # -- parsing -------------------------------------------------------------------------------

    def _parse_nodes(
        self, nodes: Sequence[BaseNode], show_progress: bool = False, **kwargs: Any
    ) -> list[BaseNode]:
        return list(self._parse(nodes, show_progress))

    async def _aparse_nodes(
        self, nodes: Sequence[BaseNode], show_progress: bool = False, **kwargs: Any
    ) -> list[BaseNode]:
        return await self.embed_model._worker.run(
            lambda cancelled: list(self._parse(nodes, show_progress, cancelled))
        )

    def _parse(
        self, nodes: Sequence[BaseNode], show_progress: bool, cancelled: Cancelled | None = None
    ) -> Iterator[BaseNode]:
        given = get_tqdm_iterable(nodes, show_progress, "Encoding documents")
        texts = (text_of(node) for node in given)
        for encoding in self.embed_model.encoder.iter_landmarks(texts, cancelled=cancelled):
            yield from self._passages(nodes[encoding.index], encoding)

    def _passages(self, document: BaseNode, encoding: LandmarkEncoding) -> Iterator[TextNode]:
        text, space = text_of(document), self.embed_model.encoder.space
        runs = even_runs(encoding.chunk_tokens, self.passage_tokens)
        vectors = passage_vectors(encoding.landmarks, runs, encoding.weights)
        # Made once: it digests the whole document.
        source = {NodeRelationship.SOURCE: document.as_related_node_info()}
        shown = {name: getattr(document, name) for name in _SHOWN if hasattr(document, name)}
        for number, (run, vector) in enumerate(zip(runs.tolist(), vectors, strict=True)):
            begin, end = int(encoding.spans[run[0], 0]), int(encoding.spans[run[1] - 1, 1])
            piece = text[begin:end]
            begin += len(piece) - len(piece.lstrip())
            piece = piece.strip()
            if not piece:
                continue
            if self.id_func is default_id_func:
                name = _name(document.node_id, begin, piece, space)
            else:
                name = self.id_func(number, document)
            landmarks = landmarks_within(_run(encoding, run, vector), begin, len(piece))
            if landmarks is not None:
                HANDOVER.offer(space, piece, landmarks)
            yield TextNode(
                id_=name,
                text=piece,
                embedding=vector.tolist(),
                start_char_idx=begin,
                end_char_idx=begin + len(piece),
                relationships=dict(source),
                **shown,
            )

    def _postprocess_parsed_nodes(
        self, nodes: list[BaseNode], parent_doc_map: dict[str, Document]
    ) -> list[BaseNode]:
        """As in the base class; but there offsets are searched for, while these are known.

        A node that was cut further stands for its document: its own offset is added.
        """
        made = [node for node in nodes if isinstance(node, TextNode)]
        known = [(node.ref_doc_id, node.start_char_idx or 0) for node in made]
        done = super()._postprocess_parsed_nodes(nodes, parent_doc_map)
        for node, (parent_id, start) in zip(made, known, strict=True):
            parent = parent_doc_map.get(parent_id or "")
            if parent is not None and parent.source_node is not None:
                start += getattr(parent, "start_char_idx", None) or 0
            node.start_char_idx, node.end_char_idx = start, start + len(node.text)
        return done


def _run(encoding: LandmarkEncoding, run: list[int], vector: Any) -> LandmarkEncoding:
    first, stop = run
    tokens = encoding.chunk_tokens[first:stop]
    return LandmarkEncoding(
        vector=vector,
        # Copies: a slice would hold the whole document's landmarks in memory.
        landmarks=encoding.landmarks[first:stop].copy(),
        spans=encoding.spans[first:stop].copy(),
        weights=encoding.weights[first:stop].copy(),
        chunk_tokens=tokens.copy(),
        n_tokens=int(tokens.sum()),
        n_windows=encoding.n_windows,
        n_unk=0,
    )


def _name(doc_id: str, begin: int, text: str, space: str) -> str:
    """A node's id."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return str(uuid.uuid5(_NAMESPACE, json.dumps([doc_id, begin, len(text), digest, space])))
