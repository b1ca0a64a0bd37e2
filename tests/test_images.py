"""Image intake: what a person sees in a file is what the model sees, or a typed error says why."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from omniembed.errors import ImageDecodeError, ImageTooLargeError, InputTypeError
from omniembed.models.images import ImageLimits, load_rgb, to_pixels
from omniembed.models.manifest import ImagePreprocessing


def gradient(mode: str) -> Image.Image:
    """A horizontal ramp from black to white in the given mode."""
    ramp = np.tile(np.linspace(0, 1, 64, dtype=np.float64), (48, 1))
    if mode == "I;16":
        return Image.fromarray((ramp * 65535).astype(np.uint16))
    if mode == "I":
        return Image.fromarray((ramp * 65535).astype(np.int32))
    if mode == "F":
        return Image.fromarray(ramp.astype(np.float32))
    return Image.fromarray((ramp * 255).astype(np.uint8), "L").convert(mode)


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "CMYK", "YCbCr", "P", "LA", "I;16", "I", "F"])
def test_every_mode_keeps_its_grey_levels(mode: str) -> None:
    seen = np.asarray(load_rgb(gradient(mode)).convert("L"), dtype=int)
    assert abs(seen[0, 0]) <= 8
    assert seen[0, -1] >= 245
    middle = seen[0, 32]
    assert 110 <= middle <= 146, f"{mode}: the middle of a ramp came out as {middle}"


@pytest.mark.parametrize("suffix", ["png", "jpg", "webp", "gif", "bmp", "tiff"])
def test_every_format_is_read(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"picture.{suffix}"
    Image.new("RGB", (40, 30), (200, 30, 40)).save(path)
    red = np.asarray(load_rgb(path))[15, 20].astype(int)
    assert abs(red - [200, 30, 40]).max() < 12


def test_sixteen_bit_png_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "deep.png"
    gradient("I;16").save(path)
    seen = np.asarray(load_rgb(path))
    assert 110 <= seen[0, 32, 0] <= 146


@pytest.mark.parametrize("order", ["<u2", ">u2"])
def test_sixteen_bit_tiff_in_either_byte_order(order: str, tmp_path: Path) -> None:
    path = tmp_path / "deep.tiff"
    mode = "I;16" if order == "<u2" else "I;16B"
    samples = np.tile(np.linspace(0, 65535, 64), (8, 1)).astype(order)
    Image.frombytes(mode, (64, 8), samples.tobytes()).save(path)
    assert 110 <= np.asarray(load_rgb(path))[0, 32, 0] <= 146


def test_transparency_is_laid_on_white() -> None:
    hidden = Image.new("RGBA", (8, 8), (255, 0, 0, 0))
    assert np.asarray(load_rgb(hidden)).min() == 255
    half = Image.new("RGBA", (8, 8), (0, 0, 0, 128))
    assert 120 <= np.asarray(load_rgb(half))[0, 0, 0] <= 135


def test_palette_transparency_is_laid_on_white(tmp_path: Path) -> None:
    image = Image.new("P", (8, 8), 0)
    image.putpalette([255, 0, 0, 0, 255, 0])
    path = tmp_path / "hidden.png"
    image.save(path, transparency=0)
    assert np.asarray(load_rgb(path)).min() == 255


@pytest.mark.parametrize(("orientation", "corner"), [(1, (0, 0)), (3, (-1, -1)), (6, (0, -1))])
def test_exif_orientation_is_applied(
    orientation: int, corner: tuple[int, int], tmp_path: Path
) -> None:
    pixels = np.zeros((40, 60, 3), np.uint8)
    pixels[:12, :12] = 255
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = tmp_path / "turned.jpg"
    Image.fromarray(pixels).save(path, exif=exif, quality=95)
    seen = np.asarray(load_rgb(path)).astype(int)
    assert seen[corner].mean() > 200
    assert (seen.mean(axis=2) > 200).mean() < 0.1


def test_an_animation_gives_its_first_frame(tmp_path: Path) -> None:
    path = tmp_path / "moving.gif"
    frames = [Image.new("RGB", (8, 8), color) for color in ("blue", "red", "green")]
    frames[0].save(path, save_all=True, append_images=frames[1:])
    assert tuple(np.asarray(load_rgb(path))[0, 0]) == (0, 0, 255)


def test_a_bomb_is_refused_before_decoding(tmp_path: Path) -> None:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    header = struct.pack(">IIBBBBB", 60000, 60000, 1, 0, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", b"") + chunk(b"IEND", b"")
    path = tmp_path / "bomb.png"
    path.write_bytes(data)
    with pytest.raises(ImageTooLargeError, match=r"3600000000|3,600,000,000"):
        load_rgb(path)


def test_limits_name_the_value_and_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "big.png"
    Image.new("L", (200, 100)).save(path)
    with pytest.raises(ImageTooLargeError, match=r"200 x 100 .* 5000"):
        load_rgb(path, limits=ImageLimits(max_pixels=5000))
    with pytest.raises(ImageTooLargeError, match=r"limit of 10"):
        load_rgb(path, limits=ImageLimits(max_bytes=10))


def whole_jpeg() -> bytes:
    buffer = io.BytesIO()
    noise = np.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(noise).save(buffer, "JPEG")
    return buffer.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00" * 100,
        b"not an image",
        b"<svg xmlns='x'/>",
        whole_jpeg()[:700],
        whole_jpeg()[:30],
    ],
    ids=["empty", "nul", "text", "svg", "truncated", "header only"],
)
def test_damaged_files_give_a_typed_error_with_the_index(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "broken.jpg"
    path.write_bytes(content)
    with pytest.raises(ImageDecodeError, match=r"image 7: .*broken\.jpg") as caught:
        load_rgb(path, index=7)
    assert caught.value.index == 7


def test_postscript_under_another_name_is_never_run(tmp_path: Path) -> None:
    path = tmp_path / "picture.png"
    header = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n"
    path.write_bytes(header)
    with pytest.raises(ImageDecodeError, match="no image format"):
        load_rgb(path)


def test_missing_files_and_folders(tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere.png", tmp_path):
        with pytest.raises(ImageDecodeError, match="cannot read"):
            load_rgb(path)


def test_a_string_is_never_an_image() -> None:
    with pytest.raises(InputTypeError, match=r"pathlib\.Path"):
        load_rgb("picture.png")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "size", [(1, 1), (1, 5000), (5000, 1), (223, 225), (640, 480), (30000, 20)]
)
def test_any_shape_becomes_the_input_square(size: tuple[int, int]) -> None:
    pixels = to_pixels(Image.new("RGB", size, (10, 200, 30)), ImagePreprocessing())
    assert pixels.shape == (224, 224, 3)
    assert pixels.dtype == np.uint8
    assert (pixels == [10, 200, 30]).all()


def test_the_given_picture_is_left_as_it_is() -> None:
    image = gradient("P")
    before = image.tobytes(), image.mode, image.size
    load_rgb(image)
    assert (image.tobytes(), image.mode, image.size) == before
