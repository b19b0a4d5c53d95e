"""Tiny random models of every supported family, written to a directory as a user would have them.

Two layers, 32 wide; the tokenizer is trained here on a few lines of many scripts. Nothing is
downloaded. The directories hold config.json, model.safetensors, tokenizer.json and
tokenizer_config.json, as `save_pretrained` writes them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from tokenizers import (
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import (
    BertConfig,
    BertModel,
    DebertaV2Config,
    DebertaV2Model,
    DistilBertConfig,
    DistilBertModel,
    LlamaConfig,
    LlamaModel,
    ModernBertConfig,
    ModernBertModel,
    MPNetConfig,
    MPNetModel,
    PreTrainedConfig,
    PreTrainedModel,
    Qwen3Config,
    Qwen3Model,
    RobertaConfig,
    RobertaModel,
    XLMRobertaConfig,
    XLMRobertaModel,
)

KINDS = (
    "bert",
    "roberta",
    "xlm-roberta",
    "mpnet",
    "distilbert",
    "deberta-v2",
    "modernbert",
    "qwen3",
    "llama",
)
DECODERS = ("qwen3", "llama")
BYTE_LEVEL = ("roberta", "modernbert", "qwen3", "llama")

WIDTH = 32
POSITIONS = {"modernbert": 2048, "qwen3": 256, "llama": 256}
"""Positions that a window of each family may have; 128 where not named."""

CORPUS = [
    "The quick brown fox jumps over the lazy dog, and the dog sleeps by the river all day long.",
    "A landmark stands after every chunk of the text; its state stands for what was read there.",
    "She walked down to the harbour. Nobody was there! Why had they all gone? It was late.",
    "query: where does the river end? passage: the river ends where the sea begins, far away.",
    "# Heading one\n\nA paragraph follows.\n\n## Heading two\n\nAnother paragraph: 123.",
    "El zorro marrón salta sobre el perro perezoso. ¿Dónde está el río? Fällt Öl über Äpfel?",
    "Быстрая лиса прыгает через ленивую собаку. Река течёт к морю.",
    "敏捷的狐狸跳过懒狗。河流流向大海。 これは文章です。次の文です。",
    "الثعلب السريع يقفز فوق الكلب الكسول. النهر يجري إلى البحر.",
    "שועל מהיר קופץ מעל כלב עצלן. family \U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f600.",
]

_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_QWEN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def build_tiny(kind: str, directory: Path, *, seed: int = 0, baked: bool = False) -> Path:
    """Write a tiny random model of a family and return its directory.

    baked: bake padding to 64 and truncation at 16 tokens into tokenizer.json, as some published
        models do.
    """
    directory.mkdir(parents=True, exist_ok=True)
    tokenizer, settings = _tokenizer(kind)
    if baked:
        tokenizer.enable_padding(length=64, pad_id=0, pad_token=settings["pad_token"])
        tokenizer.enable_truncation(16)
    tokenizer.save(str(directory / "tokenizer.json"))
    (directory / "tokenizer_config.json").write_text(json.dumps(settings))
    torch.manual_seed(seed)
    model = _model(kind, tokenizer, settings)
    _spread(model)
    model.save_pretrained(directory)
    return directory


def _spread(model: PreTrainedModel) -> None:
    """Random weights far from zero: with the usual 0.02 all states are nearly alike."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim > 1:
                parameter.normal_(0.0, 0.5 if "embed" in name else 0.2)


def _tokenizer(kind: str) -> tuple[Tokenizer, dict[str, Any]]:
    if kind in ("bert", "distilbert", "mpnet"):
        return _wordpiece(kind)
    if kind in ("xlm-roberta", "deberta-v2"):
        return _unigram(kind)
    return _byte_level(kind)


def _wordpiece(kind: str) -> tuple[Tokenizer, dict[str, Any]]:
    names = {"bert": "BertTokenizer", "distilbert": "DistilBertTokenizer"}
    if kind == "mpnet":
        special = ["<s>", "<pad>", "</s>", "[UNK]", "<mask>"]
        cls, pad, sep, unk, mask = special
    else:
        special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        pad, unk, cls, sep, mask = special
    tokenizer = Tokenizer(models.WordPiece(unk_token=unk))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.train_from_iterator(
        CORPUS, trainers.WordPieceTrainer(vocab_size=600, special_tokens=special)
    )
    ids = [(token, tokenizer.token_to_id(token)) for token in (cls, sep)]
    pair = f"{cls} $A {sep} {sep} $B {sep}" if kind == "mpnet" else f"{cls} $A {sep} $B:1 {sep}:1"
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{cls} $A {sep}", pair=pair, special_tokens=ids
    )
    tokenizer.decoder = decoders.WordPiece()
    settings = {
        "tokenizer_class": names.get(kind, "MPNetTokenizer"),
        "do_lower_case": True,
        "cls_token": cls,
        "sep_token": sep,
        "pad_token": pad,
        "unk_token": unk,
        "mask_token": mask,
        "model_max_length": 128,
    }
    if kind == "mpnet":
        settings |= {"bos_token": cls, "eos_token": sep}
    return tokenizer, settings


def _unigram(kind: str) -> tuple[Tokenizer, dict[str, Any]]:
    if kind == "xlm-roberta":
        special = ["<s>", "<pad>", "</s>", "<unk>"]
        cls, pad, sep, unk = special
        mask = "<mask>"
        own = {"tokenizer_class": "XLMRobertaTokenizer", "bos_token": cls, "eos_token": sep}
    else:
        special = ["[PAD]", "[CLS]", "[SEP]", "[UNK]"]
        pad, cls, sep, unk = special
        mask = "[MASK]"
        own = {"tokenizer_class": "DebertaV2Tokenizer", "bos_token": cls, "eos_token": sep}
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Replace("\r\n", " "), normalizers.Replace("\n", " "), normalizers.NFKC()]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.train_from_iterator(
        CORPUS, trainers.UnigramTrainer(vocab_size=500, special_tokens=special, unk_token=unk)
    )
    tokenizer.add_special_tokens([mask])
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{cls} $A {sep}",
        pair=f"{cls} $A {sep} $B {sep}",
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in (cls, sep)],
    )
    tokenizer.decoder = decoders.Metaspace()
    return tokenizer, own | {
        "cls_token": cls,
        "sep_token": sep,
        "pad_token": pad,
        "unk_token": unk,
        "mask_token": mask,
        "model_max_length": 128,
    }


def _byte_level(kind: str) -> tuple[Tokenizer, dict[str, Any]]:
    special = {
        "roberta": ["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
        "modernbert": ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"],
        "qwen3": ["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        "llama": ["<|begin_of_text|>", "<|end_of_text|>"],
    }[kind]
    tokenizer = Tokenizer(models.BPE())
    pattern = _QWEN if kind in DECODERS else _GPT2
    if kind == "qwen3":
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    if kind == "roberta":  # as published: no split of its own
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(
        CORPUS,
        trainers.BpeTrainer(
            vocab_size=700,
            special_tokens=special,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        ),
    )
    id_of = tokenizer.token_to_id
    if kind == "roberta":
        tokenizer.post_processor = processors.RobertaProcessing(
            ("</s>", id_of("</s>")), ("<s>", id_of("<s>")), trim_offsets=True
        )
        return tokenizer, {
            "tokenizer_class": "RobertaTokenizer",
            "bos_token": "<s>",
            "cls_token": "<s>",
            "eos_token": "</s>",
            "sep_token": "</s>",
            "pad_token": "<pad>",
            "unk_token": "<unk>",
            "mask_token": "<mask>",
            "model_max_length": 128,
        }
    if kind == "modernbert":
        tokenizer.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]",
            pair="[CLS] $A [SEP] $B [SEP]",
            special_tokens=[(token, id_of(token)) for token in ("[CLS]", "[SEP]")],
        )
        return tokenizer, {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "cls_token": "[CLS]",
            "sep_token": "[SEP]",
            "pad_token": "[PAD]",
            "unk_token": "[UNK]",
            "mask_token": "[MASK]",
            "model_max_length": 2048,
        }
    if kind == "qwen3":  # no special token around a text, and the padding is the end token
        tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
        return tokenizer, {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": "<|endoftext|>",
            "pad_token": "<|endoftext|>",
            "model_max_length": 256,
        }
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<|begin_of_text|> $A",
        pair="<|begin_of_text|> $A <|begin_of_text|> $B",
        special_tokens=[("<|begin_of_text|>", id_of("<|begin_of_text|>"))],
    )
    return tokenizer, {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<|begin_of_text|>",
        "eos_token": "<|end_of_text|>",
        "pad_token": "<|end_of_text|>",
        "model_max_length": 256,
    }


def _model(kind: str, tokenizer: Tokenizer, settings: dict[str, Any]) -> PreTrainedModel:
    def id_of(name: str) -> int | None:
        token = settings.get(name)
        return None if token is None else tokenizer.token_to_id(token)

    shape: dict[str, Any] = {
        "vocab_size": tokenizer.get_vocab_size(),
        "hidden_size": WIDTH,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 48,
        "pad_token_id": id_of("pad_token"),
    }
    text: dict[str, Any] = {"bos_token_id": id_of("bos_token"), "eos_token_id": id_of("eos_token")}
    config: PreTrainedConfig
    if kind == "bert":
        config = BertConfig(**shape, max_position_embeddings=128)
        return BertModel(config, add_pooling_layer=False)
    if kind in ("roberta", "xlm-roberta"):
        cls = RobertaConfig if kind == "roberta" else XLMRobertaConfig
        config = cls(**shape, **text, max_position_embeddings=130, type_vocab_size=1)
        if kind == "roberta":
            return RobertaModel(config, add_pooling_layer=False)
        return XLMRobertaModel(config, add_pooling_layer=True)
    if kind == "mpnet":
        config = MPNetConfig(**shape, **text, max_position_embeddings=130)
        return MPNetModel(config, add_pooling_layer=False)
    if kind == "distilbert":
        config = DistilBertConfig(
            vocab_size=shape["vocab_size"],
            dim=WIDTH,
            hidden_dim=48,
            n_layers=2,
            n_heads=4,
            max_position_embeddings=128,
            pad_token_id=shape["pad_token_id"],
        )
        return DistilBertModel(config)
    if kind == "deberta-v2":
        config = DebertaV2Config(
            **shape,
            max_position_embeddings=128,
            relative_attention=True,
            position_buckets=16,
            norm_rel_ebd="layer_norm",
            share_att_key=True,
            pos_att_type=["p2c", "c2p"],
            position_biased_input=False,
            type_vocab_size=0,
        )
        return DebertaV2Model(config)
    if kind == "modernbert":
        config = ModernBertConfig(
            **shape,
            max_position_embeddings=2048,
            cls_token_id=id_of("cls_token"),
            sep_token_id=id_of("sep_token"),
            bos_token_id=id_of("cls_token"),
            eos_token_id=id_of("sep_token"),
            local_attention=64,
            global_attn_every_n_layers=2,
        )
        return ModernBertModel(config)
    shape |= {"num_key_value_heads": 2, "max_position_embeddings": 256, "head_dim": 8}
    if kind == "qwen3":
        return Qwen3Model(Qwen3Config(**shape, **text))
    return LlamaModel(LlamaConfig(**shape, **text))
