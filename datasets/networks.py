"""Networks by name: the light models, and those built here with seeded weights."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from autotune.disk.atomic_file import replace_file
from autotune.disk.private_folder import make_private
from autotune.errors import ModelError

if TYPE_CHECKING:  # names of networks are asked for where ONNX is not imported
    import onnx


@dataclass(frozen=True, slots=True)
class Network:
    """One network: the function of this package that builds it, as ``module.function``, or None
    when its file ships inside the onnx package."""

    name: str
    function: str | None
    citation: str

    @property
    def builder(self) -> Callable[[], onnx.ModelProto] | None:
        """The function; its module is imported now."""
        if self.function is None:
            return None
        module, name = self.function.split(".")
        found: Callable[[], onnx.ModelProto] = getattr(
            importlib.import_module(f"autotune.datasets.{module}"), name
        )
        return found


NETWORKS: dict[str, Network] = {
    row.name: row
    for row in (
        Network("light_squeezenet", None, "Iandola et al. 2016, arXiv:1602.07360"),
        Network("light_resnet50", None, "He et al. 2016, arXiv:1512.03385"),
        Network("light_bvlc_alexnet", None, "Krizhevsky et al. 2012, NeurIPS 25"),
        Network("light_zfnet512", None, "Zeiler and Fergus 2014, arXiv:1311.2901"),
        Network("light_inception_v1", None, "Szegedy et al. 2014, arXiv:1409.4842"),
        Network("light_densenet121", None, "Huang et al. 2017, arXiv:1608.06993"),
        Network("light_inception_v2", None, "Ioffe and Szegedy 2015, arXiv:1502.03167"),
        Network("light_shufflenet", None, "Zhang et al. 2018, arXiv:1707.01083"),
        Network("light_vgg19", None, "Simonyan and Zisserman 2015, arXiv:1409.1556"),
        Network("mlp", "perceptrons.mlp", "Rumelhart, Hinton and Williams 1986, Nature 323"),
        Network(
            "transformer_block",
            "transformers.transformer_block",
            "Vaswani et al. 2017, arXiv:1706.03762",
        ),
        Network("bert_layer", "transformers.bert_layer", "Devlin et al. 2018, arXiv:1810.04805"),
        Network("bert_small", "transformers.bert_small", "Turc et al. 2019, arXiv:1908.08962"),
        Network("vit_tiny", "transformers.vit", "Touvron et al. 2020, arXiv:2012.12877"),
        Network("mobilenet_v2", "mobilenet.mobilenet_v2", "Sandler et al. 2018, arXiv:1801.04381"),
        Network("mobilenet_v3", "mobilenet.mobilenet_v3", "Howard et al. 2019, arXiv:1905.02244"),
        Network(
            "efficientnet_b0", "efficientnet.efficientnet", "Tan and Le 2019, arXiv:1905.11946"
        ),
        Network("resnext50", "resnext.resnext", "Xie et al. 2017, arXiv:1611.05431"),
        Network("unet", "unet.unet", "Ronneberger et al. 2015, arXiv:1505.04597"),
        Network("unet_resize", "unet.unet_resize", "Odena et al. 2016, doi:10.23915/distill.00003"),
        Network("convnext_tiny", "convnext.convnext", "Liu et al. 2022, arXiv:2201.03545"),
        Network("mixer_s16", "mixer.mixer", "Tolstikhin et al. 2021, arXiv:2105.01601"),
        Network(
            "gpt2_step",
            "decoder.gpt2_step",
            "Radford et al. 2019, Language models are multitask learners",
        ),
        Network(
            "lstm",
            "recurrent.lstm",
            "Hochreiter and Schmidhuber 1997, doi:10.1162/neco.1997.9.8.1735",
        ),
        Network("gru", "recurrent.gru", "Cho et al. 2014, arXiv:1406.1078"),
        Network(
            "lstm_layer",
            "recurrent.lstm_layer",
            "Graves and Schmidhuber 2005, doi:10.1016/j.neunet.2005.06.042",
        ),
        Network("gru_layer", "recurrent.gru_layer", "Cho et al. 2014, arXiv:1406.1078v1"),
        Network("yolo_head", "detection.yolo_head", "Redmon and Farhadi 2018, arXiv:1804.02767"),
        Network(
            "vit_b32", "vision_transformer.vit_b32", "Dosovitskiy et al. 2020, arXiv:2010.11929"
        ),
        Network("swin_tiny", "swin.swin_tiny", "Liu et al. 2021, arXiv:2103.14030"),
        Network("aspp_head", "segmentation.aspp_head", "Chen et al. 2017, arXiv:1706.05587"),
        Network("segformer_b0", "segmentation.segformer_b0", "Xie et al. 2021, arXiv:2105.15203"),
        Network(
            "whisper_encoder", "audio.whisper_encoder", "Radford et al. 2022, arXiv:2212.04356"
        ),
        Network("conv_tasnet", "audio.conv_tasnet", "Luo and Mesgarani 2018, arXiv:1809.07454"),
        Network("conformer", "audio.conformer", "Gulati et al. 2020, arXiv:2005.08100"),
        Network("retina_fpn", "pyramid.retina_fpn", "Lin et al. 2017, arXiv:1708.02002"),
        Network(
            "mobilevit_xs", "mobilevit.mobilevit_xs", "Mehta and Rastegari 2021, arXiv:2110.02178"
        ),
        Network("poolformer_s12", "poolformer.poolformer_s12", "Yu et al. 2021, arXiv:2111.11418"),
        Network("llama_step", "llama.llama_step", "Touvron et al. 2023, arXiv:2302.13971"),
        Network(
            "marian_decoder",
            "translation.marian_decoder",
            "Junczys-Dowmunt et al. 2018, arXiv:1804.00344",
        ),
        Network(
            "attention",
            "transformers.attention",
            "Vaswani et al. 2017, arXiv:1706.03762, section 3.2.1",
        ),
        Network(
            "norm_gelu", "chains.norm_gelu", "Ba et al. 2016, arXiv:1607.06450; arXiv:1606.08415"
        ),
        Network(
            "elementwise", "chains.elementwise", "Williams, Waterman and Patterson 2009, CACM 52(4)"
        ),
    )
}


def load(name: str, folder: Path) -> Path:
    """The ONNX file of a network, built into ``folder`` on first use when it does not ship.

    Raises ``ModelError`` for an unknown name or when the file cannot be written.
    """
    if name not in NETWORKS:
        raise ModelError(f"no network {name!r}; there are {', '.join(NETWORKS)}")
    if NETWORKS[name].function is None:
        from autotune.datasets.onnx_light import light_path  # it imports onnx

        return light_path(name)
    path = folder / f"{name}.onnx"
    if not path.is_file():
        write(name, path)
    return path


def write(name: str, path: Path) -> None:
    """Build a network and write its file whole or not at all. Raises ``ModelError``."""
    builder = NETWORKS[name].builder if name in NETWORKS else None
    content = (
        load(name, path.parent).read_bytes() if builder is None else builder().SerializeToString()
    )
    try:
        make_private(path.parent)
        replace_file(path, content)
    except OSError as error:
        raise ModelError(
            f"{path}: cannot be written: {error.strerror}; choose another folder"
        ) from None
