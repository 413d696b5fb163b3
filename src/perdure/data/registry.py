"""The datasets by name: what they are, where they come from, and what to provide yourself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from .._suggestions import suggest_names
from ..record import InputError

__all__ = ["DATASETS", "DatasetInfo", "find_dataset"]

Channels = tuple[float, ...]


class ClassSubset(NamedTuple):
    """Some classes of another dataset: `classes` are named so there, `names` so here."""

    of: str
    classes: tuple[str, ...]
    names: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class DatasetInfo:
    """What is known about a dataset before it is loaded."""

    about: str
    licence: str
    shape: tuple[int, int, int]
    classes: int
    train: int | None  # the number of training images of the complete dataset, if known
    test: int | None
    mean: Channels
    std: Channels
    repository: str | None = None
    files: tuple[str, str] | None = None  # patterns of the training and test files
    provide: str | None = None  # how to prepare the files yourself
    subset: ClassSubset | None = None
    image_bytes: int | None = None  # the maximum average per image; None: twice its pixels
    fit: Literal["stretch", "crop"] = "stretch"  # crop: the center, after resizing


_GREY = ((0.1307,), (0.3081,))
_TINY = ((0.4802, 0.4481, 0.3975), (0.2770, 0.2691, 0.2821))
_IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
_IMAGENET_TERMS = "ImageNet terms: non-commercial research"
_MAGI = tuple(f"Alphabet_of_the_Magi/character{k:02}" for k in range(1, 21))
_M2I = {
    "n02124075": "Egyptian cat", "n04067472": "reel", "n04540053": "volleyball",
    "n04099969": "rocking chair", "n07749582": "lemon", "n01641577": "bullfrog",
    "n02802426": "basketball", "n09246464": "cliff", "n07920052": "espresso",
    "n03970156": "plunger",
}  # fmt: skip

# The tasks of Cossu et al. (2021) begin house, left; marvel, nine; no, off.
_WORDS = (
    "house", "left", "marvel", "nine", "no", "off", "on", "one", "right", "seven", "sheila", "six",
    "stop", "three", "tree", "two", "up", "wow", "yes", "zero",
)  # fmt: skip


def _domain(name: str) -> DatasetInfo:
    return DatasetInfo(
        about=f"Mini-DomainNet (Zhou et al., 2021): its domain {name}",
        licence="see DomainNet's site",
        shape=(3, 96, 96), classes=126, train=None, test=None,
        mean=_IMAGENET[0], std=_IMAGENET[1], fit="crop",
        provide="the 126 classes of Zhou et al. (2021) of DomainNet, images of any size (the "
        "shorter side is resized to 96, then the center is cropped)",
    )  # fmt: skip


DATASETS: dict[str, DatasetInfo] = {
    "digits": DatasetInfo(
        about="1,797 handwritten digits, 8x8, bundled with scikit-learn",
        licence="CC BY 4.0",
        shape=(1, 8, 8), classes=10, train=1442, test=355,
        mean=(0.3052,), std=(0.3760,),
    ),
    "mnist": DatasetInfo(
        about="handwritten digits",
        licence="CC BY-SA 3.0 (as usually given)",
        shape=(1, 28, 28), classes=10, train=60_000, test=10_000,
        mean=_GREY[0], std=_GREY[1],
        repository="ylecun/mnist",
        files=("mnist/train-*.parquet", "mnist/test-*.parquet"),
    ),
    "fashion-mnist": DatasetInfo(
        about="articles of clothing",
        licence="MIT",
        shape=(1, 28, 28), classes=10, train=60_000, test=10_000,
        mean=(0.2860,), std=(0.3530,),
        repository="zalando-datasets/fashion_mnist",
        files=("fashion_mnist/train-*.parquet", "fashion_mnist/test-*.parquet"),
    ),
    "cifar10": DatasetInfo(
        about="vehicles and animals",
        licence="none stated (cite Krizhevsky 2009)",
        shape=(3, 32, 32), classes=10, train=50_000, test=10_000,
        mean=(0.4914, 0.4822, 0.4465), std=(0.2470, 0.2435, 0.2616),
        repository="uoft-cs/cifar10",
        files=("plain_text/train-*.parquet", "plain_text/test-*.parquet"),
    ),
    "cifar100": DatasetInfo(
        about="things, plants and animals; the 100 fine labels",
        licence="none stated (cite Krizhevsky 2009)",
        shape=(3, 32, 32), classes=100, train=50_000, test=10_000,
        mean=(0.5071, 0.4865, 0.4409), std=(0.2673, 0.2564, 0.2762),
        repository="uoft-cs/cifar100",
        files=("cifar100/train-*.parquet", "cifar100/test-*.parquet"),
    ),
    "svhn": DatasetInfo(
        about="house numbers, cropped digits, without the extra part",
        licence="non-commercial",
        shape=(3, 32, 32), classes=10, train=73_257, test=26_032,
        mean=(0.4377, 0.4438, 0.4728), std=(0.1980, 0.2010, 0.1970),
        repository="ufldl-stanford/svhn",
        files=("cropped_digits/train-*.parquet", "cropped_digits/test-*.parquet"),
    ),
    "omniglot": DatasetInfo(
        about="characters of 50 alphabets, 20 drawers; drawers 1-16 train, 17-20 test",
        licence="MIT",
        shape=(1, 105, 105), classes=1623, train=25_968, test=6_492,
        mean=(0.9221,), std=(0.2681,),
        provide="images_background and images_evaluation of github.com/brendenlake/omniglot, "
        "drawers 1-16 as train and 17-20 as test (the source has no such split), classes named "
        "like Alphabet_of_the_Magi/character01",
    ),
    "omniglot-magi": DatasetInfo(
        about="characters of the Alphabet of the Magi; drawers 1-16 train, 17-20 test",
        licence="MIT",
        shape=(1, 105, 105), classes=20, train=320, test=80,
        mean=(0.9221,), std=(0.2681,),
        provide="the 20 characters of images_background/Alphabet_of_the_Magi of "
        "github.com/brendenlake/omniglot, drawers 1-16 as train and 17-20 as test (the source has "
        "no such split), or the whole of omniglot",
        subset=ClassSubset("omniglot", _MAGI, _MAGI),
    ),
    "tiny-imagenet": DatasetInfo(
        about="200 classes of ImageNet, 64x64; the official validation part is the test part",
        licence=_IMAGENET_TERMS,
        shape=(3, 64, 64), classes=200, train=100_000, test=10_000,
        mean=_TINY[0], std=_TINY[1],
        repository="zh-plus/tiny-imagenet",
        files=("data/train-*.parquet", "data/valid-*.parquet"),
    ),
    "tiny-imagenet-10": DatasetInfo(
        about="the ten classes of M2I and I2M, of tiny-imagenet",
        licence=_IMAGENET_TERMS,
        shape=(3, 64, 64), classes=10, train=5_000, test=500,
        mean=_TINY[0], std=_TINY[1],
        subset=ClassSubset("tiny-imagenet", tuple(_M2I), tuple(_M2I.values())),
    ),
    "mini-imagenet": DatasetInfo(
        about="100 classes of ImageNet, 500 + 100 images each (not the classes of Vinyals et al.)",
        licence=_IMAGENET_TERMS,
        shape=(3, 84, 84), classes=100, train=50_000, test=10_000,
        mean=_IMAGENET[0], std=_IMAGENET[1],
        repository="timm/mini-imagenet",
        image_bytes=1_000_000,  # not resized
        files=("data/train-*.parquet", "data/validation-*.parquet"),
    ),
    "mini-domainnet": replace(
        _domain("all"),
        about="Mini-DomainNet (Zhou et al., 2021): all four domains in one",
        provide="the 126 classes of Zhou et al. (2021) of DomainNet; better one folder per domain: "
        "mini-domainnet-clipart, mini-domainnet-painting, mini-domainnet-real, "
        "mini-domainnet-sketch",
    ),
    "mini-domainnet-clipart": _domain("clipart"),
    "mini-domainnet-painting": _domain("painting"),
    "mini-domainnet-real": _domain("real"),
    "mini-domainnet-sketch": _domain("sketch"),
    "synthetic-speech-commands": DatasetInfo(
        about="30 spoken words (Buchner, 2017) as 40 Mel coefficients over 101 time steps",
        licence="see its Kaggle page",
        shape=(1, 40, 101), classes=30, train=None, test=None,
        mean=(0.0,), std=(1.0,),
        provide="the clips of kaggle.com/datasets/jbuchner/synthetic-speech-commands-dataset as "
        "greyscale PNG, 101 wide (time steps) and 40 high (Mel coefficients)",
    ),
    "synthetic-speech-commands-20": DatasetInfo(
        about="the 20 words from house to zero, of synthetic-speech-commands",
        licence="see its Kaggle page",
        shape=(1, 40, 101), classes=20, train=None, test=None,
        mean=(0.0,), std=(1.0,),
        provide="the 30 words of synthetic-speech-commands, or these 20 of them",
        subset=ClassSubset("synthetic-speech-commands", _WORDS, _WORDS),
    ),
}  # fmt: skip


def find_dataset(name: str) -> DatasetInfo:
    """Return what is known about a dataset, or raise an error that suggests similar names.

    Example:
        >>> find_dataset("mnist").classes
        10
    """
    if name not in DATASETS:
        raise InputError(
            f"dataset is {name!r:.60}, expected one of {', '.join(DATASETS)}; "
            f"{suggest_names(str(name), DATASETS)}".rstrip("; ")
        )
    return DATASETS[name]
