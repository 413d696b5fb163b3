"""Reading a folder of images: one folder per class, or train/ and test/ with one per class."""

from __future__ import annotations

import hashlib
import io
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .._display import count_of
from ..record import InputError, read_file
from ._decoding import decode_into_cache, decoded_name
from ._own_arrays import MAX_BYTES, PART_NAMES, Part, Parts, choose_parts
from ._parquet import MAX_PIXELS, missing_package

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from ._parquet import ImageBatch

__all__ = ["Header", "decode_image", "plan_shape", "read_header", "read_images"]

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".webp")
FORMATS = ("PNG", "JPEG", "BMP", "WEBP")
MAX_FILES = 2_000_000
MAX_FILE_BYTES = 256 << 20
MAX_OWN_SIDE = 128  # images that are larger, or of several sizes, are resized
RESIZED_SIDE = 64
BATCH = 256
EXPECTED = "expected one folder of images per class, or train/ and test/ of such folders"


class ImageFile(NamedTuple):
    """One image: its file, its class, and the digest of its bytes."""

    path: Path
    label: str
    sha256: str


class Header(NamedTuple):
    """What an image states before it is decoded."""

    width: int
    height: int
    is_grey: bool
    is_deep: bool = False  # 16 bits per pixel


def read_images(folder: Path, size: int | None) -> Parts:
    """Return the parts of a folder; images of several sizes become squares of `size` pixels."""
    notes: list[str] = []
    files: dict[str, list[ImageFile]] = {}
    headers: Counter[Header] = Counter()
    for part, path in _find_parts(folder, notes).items():
        files[part] = []
        for file, data in _iterate_files(path, notes):
            files[part].append(file)
            headers[read_header(data, str(file.path))] += 1
    shape, count = plan_shape(headers, size, notes), headers.total()
    if count * int(np.prod(shape)) > MAX_BYTES:
        raise InputError(
            f"{folder}: {count:,} images of {shape[2]}x{shape[1]} take more than "
            f"{MAX_BYTES >> 30} GiB; use a smaller `image_size=`"
        )
    parts = {part: _decode_part(folder, part, several, shape) for part, several in files.items()}
    digest = hashlib.sha256()
    for part, several in sorted(files.items()):
        for file in several:
            digest.update(f"{part}\0{file.label}\0{file.sha256}\n".encode())
    train, test = choose_parts(parts, notes)
    return Parts(train, test, "images", {folder.name: digest.hexdigest()}, notes)


def read_header(data: bytes, source: str) -> Header:
    """Return the size of an image and whether it is grey, without decoding it."""
    try:
        from PIL import Image
    except ImportError:
        raise missing_package("Pillow") from None
    try:
        image = Image.open(io.BytesIO(data), formats=FORMATS)
    except Exception as error:  # Pillow's readers raise many kinds of errors
        raise _damaged(source, error) from None
    if image.width * image.height > MAX_PIXELS:
        raise InputError(f"{source}: {image.width}x{image.height} pixels, expected fewer")
    is_deep = image.mode.startswith("I")
    return Header(image.width, image.height, is_deep or image.mode in ("1", "L", "LA"), is_deep)


def plan_shape(
    headers: Counter[Header], size: int | None, notes: list[str]
) -> tuple[int, int, int]:
    """Return channels, height and width of all images, with notes on those that have to change."""
    channels = 1 if all(header.is_grey for header in headers) else 3
    if deep := sum(count for header, count in headers.items() if header.is_deep):
        notes.append(
            f"{deep:,} of {headers.total():,} images have 16 bits per pixel: divided by 256; save "
            "them as arrays in an .npz file to keep all bits"
        )
    sizes = Counter[tuple[int, int]]()
    for header, count in headers.items():
        sizes[header.height, header.width] += count
    (height, width), _ = sizes.most_common(1)[0]
    if size is not None:
        return channels, size, size
    if len(sizes) == 1 and max(height, width) <= MAX_OWN_SIDE:
        return channels, height, width
    reason = (
        f"images have {len(sizes)} sizes, most often {width}x{height}"
        if len(sizes) > 1
        else f"images have {width}x{height} pixels"
    )
    notes.append(
        f"{reason}: resized to {RESIZED_SIDE}x{RESIZED_SIDE}; set another size with `image_size=`"
    )
    return channels, RESIZED_SIDE, RESIZED_SIDE


def decode_image(data: bytes, shape: tuple[int, ...], source: str) -> NDArray[np.uint8]:
    """Return an image as bytes (C, H, W), resized if it has another size."""
    from PIL import Image

    channels, height, width = shape
    try:
        image: Image.Image = Image.open(io.BytesIO(data), formats=FORMATS)
        if image.mode.startswith("I"):  # 16 bits: Pillow would make everything above 255 white
            image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
        image = image.convert("L" if channels == 1 else "RGB")
        if image.size != (width, height):
            image = image.resize((width, height), Image.Resampling.BILINEAR)
        pixels = np.asarray(image)
    except Exception as error:
        raise _damaged(source, error) from None
    return pixels[None] if channels == 1 else pixels.transpose(2, 0, 1)


def _damaged(source: str, error: Exception) -> InputError:
    kind = type(error).__name__
    reason = {"UnidentifiedImageError": "not an image"}.get(kind, kind)
    if "truncated" in str(error).lower():
        reason = "not a whole image"
    return InputError(
        f"{source}: cannot be read as PNG, JPEG, BMP or WebP ({reason}); repair or remove it"
    )


def _find_parts(folder: Path, notes: list[str]) -> dict[str, Path]:
    """Return the folders of the parts by name; the folder itself is the training part."""
    folders = _list_folders(folder, notes)
    parts = [(PART_NAMES.get(path.name.lower()), path) for path in folders]
    named = {part: path for part, path in parts if part is not None}
    if "train" not in named:
        return {"train": folder}
    if len(named) < len(folders):
        others = ", ".join(path.name for path in folders if path not in named.values())
        raise InputError(f"{folder}: has {others:.100} next to train/, {EXPECTED}")
    return named


def _list_folders(folder: Path, notes: list[str]) -> list[Path]:
    entries = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    folders = [path for path in entries if path.is_dir() and not path.is_symlink()]
    if links := [path.name for path in entries if path.is_symlink() and path.is_dir()]:
        notes.append(f"{folder}: links to folders are not followed: {', '.join(links[:5])}")
    if not folders:
        raise InputError(f"{folder}: has no folders, {EXPECTED}")
    return folders


def _iterate_files(folder: Path, notes: list[str]) -> Iterator[tuple[ImageFile, bytes]]:
    """Yield the images of each class folder in order, with their bytes."""
    total, skipped = 0, 0
    for label in _list_folders(folder, notes):
        count = 0
        for place, folders, names in os.walk(label):  # does not follow links to folders
            folders.sort()
            for name in sorted(names):
                if name.startswith(".") or not name.lower().endswith(SUFFIXES):
                    skipped += not name.startswith(".")
                    continue
                path = Path(place, name)
                try:
                    data = read_file(path, MAX_FILE_BYTES)
                except OSError:  # a link to nothing
                    raise InputError(f"{path}: cannot be read; repair or remove it") from None
                yield ImageFile(path, label.name, hashlib.sha256(data).hexdigest()), data
                count += 1
        if not count:
            raise InputError(
                f"{label}: has no images ({', '.join(SUFFIXES)}); fill or remove the folder"
            )
        total += count
        if total > MAX_FILES:
            raise InputError(f"{folder}: more than {MAX_FILES:,} images, expected fewer")
    if skipped:
        notes.append(f"{folder}: {count_of(skipped, 'file')} left out: not images")


def _decode_part(folder: Path, part: str, files: list[ImageFile], shape: tuple[int, ...]) -> Part:
    """Return the decoded images of a part from the cache, or decode them into it."""
    classes = tuple(sorted({file.label for file in files}))
    numbers = {label: k for k, label in enumerate(classes)}

    def batches() -> Iterator[ImageBatch]:
        for start in range(0, len(files), BATCH):
            some = files[start : start + BATCH]
            x = np.stack([
                decode_image(read_file(f.path, MAX_FILE_BYTES), shape, str(f.path)) for f in some
            ])  # fmt: skip
            yield x, np.array([numbers[file.label] for file in some], dtype=np.int64)

    key = [shape, [[file.label, file.sha256] for file in files]]
    cached = decoded_name(f"own-{part}", key)
    title = (folder.name, part)
    decoded = decode_into_cache(cached, batches, (len(files), *shape), classes, title)
    names = np.array(classes)
    numbered = all(label.isascii() and label.isdigit() and len(label) < 10 for label in classes)
    return Part(decoded.x, (names.astype(np.int64) if numbered else names)[decoded.y])
