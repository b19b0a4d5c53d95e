"""The arguments that choose a model and what runs it. Parsing only."""

from __future__ import annotations

import argparse

DTYPES = ("auto", "float32", "bfloat16", "float16", "int8")
BACKENDS = ("auto", "torch", "openvino", "onnx")


def add_model(
    parser: argparse.ArgumentParser,
    about: str = "a model directory or hub id (default: the shipped model)",
) -> None:
    """Register --model and how it is run. about: the help of --model."""
    parser.add_argument("--model", metavar="M", help=about)
    add_running(parser)


def add_running(parser: argparse.ArgumentParser) -> None:
    """Register --device, --dtype, --backend and --compile."""
    parser.add_argument(
        "--device", default="auto", metavar="D", help="cpu, cuda, mps, ... (default: auto)"
    )
    parser.add_argument(
        "--dtype",
        default="auto",
        choices=DTYPES,
        help="of the computation (default: bfloat16 where the hardware has it, else float32)",
    )
    parser.add_argument(
        "--backend",
        default="auto",
        choices=BACKENDS,
        help="what runs the model (default: OpenVINO where installed and faster, else torch)",
    )
    parser.add_argument(
        "--compile",
        action="store_true",
        help="run PyTorch's model through torch.compile: slow to start, for long runs on a GPU",
    )
