"""From ``open_clip:…`` or ``hf:…`` to torch towers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from ....errors import ExportError
from ....models.manifest import ImagePreprocessing, Provenance
from .source import BackboneSource, VisionSource


def load_source(spec: str, vision: str | None = None) -> BackboneSource:
    """Load a backbone.

    Args:
        spec: ``open_clip:MODEL/PRETRAINED``, ``open_clip:FOLDER`` or ``hf:NAME_OR_FOLDER``.
        vision: the same forms; a vision tower aligned to the text tower, in place of its own.

    Returns:
        The source.

    Raises:
        ExportError: for an unknown form, or when loading fails.
    """
    scheme, _, name = spec.partition(":")
    if not name or scheme not in ("open_clip", "hf"):
        raise ExportError(
            f"{spec!r} is no backbone; write open_clip:MODEL/PRETRAINED, open_clip:FOLDER or "
            "hf:NAME_OR_FOLDER"
        )
    if scheme == "open_clip":
        from .open_clip import load_open_clip

        source = load_open_clip(name)
    else:
        from .hugging_face import load_hugging_face

        source = load_hugging_face(name)
    if vision is None:
        return source
    tower, origin = _load_vision(vision)
    return replace(source, vision=tower, provenance=(*source.provenance, *origin))


def _load_vision(spec: str) -> tuple[VisionSource, tuple[Provenance, ...]]:
    scheme, _, name = spec.partition(":")
    if scheme == "open_clip" and name:
        from .open_clip import load_open_clip

        whole = load_open_clip(name)
        if whole.vision is None:
            raise ExportError(f"{spec} has no vision tower")
        return whole.vision, tuple(replace(one, part="vision tower") for one in whole.provenance)
    if scheme == "hf" and name:
        return _hugging_face_vision(name)
    raise ExportError(f"{spec!r} is no vision tower; write open_clip:… or hf:…")


class ProjectedVision(nn.Module):
    """A vision model of ``transformers`` that gives one vector a picture.

    Args:
        model: with ``image_embeds``, or a pooled state.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixels: Tensor) -> Tensor:
        """Encode pictures.

        Args:
            pixels: float32 (n, 3, side, side), normalised.

        Returns:
            float32 (n, dim).
        """
        output: Any = self.model(pixel_values=pixels)
        embeds = getattr(output, "image_embeds", None)
        if embeds is not None:
            return embeds
        pooled = output.pooler_output
        return output.last_hidden_state[:, 0] if pooled is None else pooled


def _hugging_face_vision(name: str) -> tuple[VisionSource, tuple[Provenance, ...]]:
    from PIL.Image import Resampling
    from transformers import AutoConfig, AutoImageProcessor, AutoModel
    from transformers import CLIPVisionModelWithProjection as ClipVision

    from .hugging_face import local_folder
    from .source import weights_provenance

    folder = local_folder(name)
    try:
        config = AutoConfig.from_pretrained(folder)
        kind = ClipVision if config.model_type in ("clip", "clip_vision_model") else AutoModel
        model = kind.from_pretrained(folder, attn_implementation="eager")
        processor: Any = AutoImageProcessor.from_pretrained(folder)
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise ExportError(f"cannot load the vision tower in {folder}: {error}") from error
    preprocessing = _processor_size(processor, Resampling(int(processor.resample)).name)
    weights = sorted(folder.glob("*.safetensors"))
    tower = VisionSource(
        module=ProjectedVision(model.eval().requires_grad_(False).float()).eval(),
        path="visual",
        preprocessing=preprocessing,
        mean=tuple(processor.image_mean),
        std=tuple(processor.image_std),
    )
    record = weights_provenance("vision tower", f"hf:{name}", "", weights[0] if weights else None)
    return tower, (record,)


def _processor_size(processor: Any, resample: str) -> ImagePreprocessing:
    size, crop = dict(processor.size), processor.crop_size
    crops = bool(getattr(processor, "do_center_crop", False)) and crop is not None
    if "shortest_edge" in size:
        side = int(dict(crop)["height"]) if crops else int(size["shortest_edge"])
        return ImagePreprocessing(side, side / size["shortest_edge"], resample.lower())
    if size.get("height") != size.get("width") or crops:
        raise ExportError(f"visual: image processor sizes {size}, {crop} are not supported")
    side = int(size["height"])
    return ImagePreprocessing(side, 1.0, resample.lower(), "squash")
