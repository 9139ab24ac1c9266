"""Small PyTorch models of many kinds with random weights, and arguments for them."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import torch
from torch import nn


@dataclass(frozen=True)
class Case:
    """A model in evaluation mode and the arguments of a call."""

    module: nn.Module
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)


class Recurrent(nn.Module):
    """An LSTM and a GRU in a row, as audio and time-series models have them."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.LSTM(16, 24, batch_first=True, bidirectional=True)
        self.second = nn.GRU(48, 16, batch_first=True)
        self.head = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        features, _ = self.first(x)
        features, state = self.second(features)
        return {"scores": self.head(features), "state": state}


@functools.cache
def torchvision() -> ModuleType:
    """Import torchvision. Its operators are declared here if its binary is for another PyTorch:
    the models of this file use none of them."""
    try:
        return importlib.import_module("torchvision")
    except RuntimeError:
        global _library  # declarations end with the object  # noqa: PLW0603
        _library = torch.library.Library("torchvision", "FRAGMENT")
        for name in ("nms", "qnms"):
            _library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        return importlib.import_module("torchvision")


_library: Any = None


def _image_case(module: nn.Module, size: int) -> Case:
    """Return a case in which no weight is all zeros, as some heads are before training."""
    for weight in module.parameters():
        if weight.ndim > 1 and not weight.any():
            nn.init.normal_(weight, std=0.02)
    return Case(module.eval(), (torch.randn(1, 3, size, size),))


def from_torchvision(name: str, size: int = 64, **options: Any) -> Case:
    torchvision()
    module = importlib.import_module("torchvision.models")
    folder, _, builder = name.rpartition(".")
    built = getattr(getattr(module, folder) if folder else module, builder)(weights=None, **options)
    return _image_case(built, size)


def from_timm(name: str, size: int = 64, **options: Any) -> Case:
    torchvision()
    timm = importlib.import_module("timm")
    module = timm.create_model(name, pretrained=False, **options)
    return _image_case(module, size)


def from_transformers(model: str, config: str, options: dict[str, Any], **kwargs: Any) -> Case:
    torchvision()  # models of transformers import it
    transformers = importlib.import_module("transformers")
    settings = getattr(transformers, config)(**options)
    return Case(getattr(transformers, model)(settings).eval(), (), kwargs)


def ids(length: int = 12, batch: int = 1) -> torch.Tensor:
    return torch.randint(3, 90, (batch, length))


ENCODER = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "vocab_size": 100,
}
GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 100, "n_positions": 64}
T5 = {"d_model": 32, "num_layers": 2, "num_heads": 4, "d_ff": 64, "d_kv": 8, "vocab_size": 100}
WHISPER = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "vocab_size": 100,
    "num_mel_bins": 20,
    "max_source_positions": 30,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
}


def whisper() -> Case:
    features = torch.randn(1, 20, 60)
    return from_transformers(
        "WhisperModel", "WhisperConfig", WHISPER, input_features=features, decoder_input_ids=ids(4)
    )


def bert() -> Case:
    mask = torch.ones(2, 12, dtype=torch.int64)
    mask[1, 7:] = 0
    return from_transformers(
        "BertModel", "BertConfig", ENCODER, input_ids=ids(batch=2), attention_mask=mask
    )


MODELS: dict[str, Callable[[], Case]] = {
    "resnet18": lambda: from_timm("resnet18"),
    "mobilenetv3": lambda: from_timm("mobilenetv3_small_050"),
    "efficientnet": lambda: from_timm("efficientnet_lite0"),
    "convnext": lambda: from_timm("convnext_atto", depths=(1, 1, 1, 1)),
    "vit": lambda: from_timm("vit_tiny_patch16_224", img_size=64, depth=2),
    "swin": lambda: from_timm(
        "swin_tiny_patch4_window7_224", 56, img_size=56, depths=(1, 2), num_heads=(3, 6)
    ),
    "mixer": lambda: from_timm("mixer_s32_224", img_size=64),
    "hybrid": lambda: from_timm("mobilevit_xxs"),
    "shufflenet": lambda: from_torchvision("shufflenet_v2_x0_5"),
    "squeezenet": lambda: from_torchvision("squeezenet1_1"),
    "googlenet": lambda: from_torchvision("googlenet", init_weights=False),
    "segmentation": lambda: from_torchvision(
        "segmentation.lraspp_mobilenet_v3_large", weights_backbone=None
    ),
    "bert": bert,
    "gpt2": lambda: from_transformers("GPT2LMHeadModel", "GPT2Config", GPT2, input_ids=ids()),
    "llama": lambda: from_transformers(
        "LlamaForCausalLM", "LlamaConfig", ENCODER | {"num_key_value_heads": 2}, input_ids=ids()
    ),
    "t5": lambda: from_transformers(
        "T5Model", "T5Config", T5, input_ids=ids(), decoder_input_ids=ids(5)
    ),
    "whisper": whisper,
    "recurrent": lambda: Case(Recurrent().eval(), (torch.randn(2, 9, 16),)),
}
"""Models by name; each takes seconds to export."""
