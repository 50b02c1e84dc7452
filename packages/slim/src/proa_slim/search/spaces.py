"""Built-in spaces: networks like MobileNetV1, V2, ResNet and BlazeFace, and blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from proa.errors import InvalidArgumentError, NotFoundError
from proa_slim.search.blocks import Block
from proa_slim.search.space import Arch, ChoiceSpace, SearchSpace

_WIDTHS = (0.5, 0.75, 1.0, 1.25)


class SpaceRegistry:
    """Spaces by name: ``@SEARCHSPACE.register`` adds a class."""

    def __init__(self) -> None:
        self._known: dict[str, Callable[..., SearchSpace]] = {}

    def register(self, space: type[SearchSpace]) -> type[SearchSpace]:
        """Add a class under its name."""
        self._known[space.__name__] = space
        return space

    def get(self, name: str) -> Callable[..., SearchSpace]:
        """The class of a name.

        Raises:
            NotFoundError: If there is none.
        """
        if name not in self._known:
            raise NotFoundError(
                f"[SEARCHSPACE] expected one of {', '.join(self._known)}, got {name!r}"
            )
        return self._known[name]


#: Spaces that `SANAS` and `RLNAS` find by name.
SEARCHSPACE = SpaceRegistry()


@dataclass(frozen=True)
class Stage:
    """Blocks of one size of feature map.

    Args:
        channels: That of the published network; widths are multiples of it.
        repeats: Options for the number of blocks.
        stride: Stride of the first block.
        kernels: Options.
        expansions: Options; one that is no choice is the block's own.
        kind: Kind of the blocks.
    """

    channels: int
    repeats: tuple[int, ...]
    stride: int
    kernels: tuple[int, ...] = (3, 5)
    expansions: tuple[float, ...] = (1.0,)
    kind: str = "conv"


def _divisible(channels: float) -> int:
    return max(8, int(channels + 4) // 8 * 8)


def _check_sizes(name: str, input_size: int, output_size: int, halvings: int) -> None:
    if halvings < 1 or -(-input_size // 2**halvings) != output_size:
        raise InvalidArgumentError(
            f"[{name}] expected output_size to be input_size halved block_num times, "
            f"got {input_size} to {output_size} with block_num={halvings}"
        )


class StagedSpace(ChoiceSpace):
    """Stages of equal blocks, with width, kernel, expansion and number as choices.

    Args:
        stem: What is before the first stage.
        stages: The stages.
        scale: What all channels are multiplied by.
        last: Channels of a 1 x 1 convolution after the last stage; 0 for none.
        num_classes: Outputs of the linear layer after pooling; 0 leaves both out.
    """

    def __init__(
        self,
        stem: Sequence[Block],
        stages: Sequence[Stage],
        scale: float = 1.0,
        last: int = 0,
        num_classes: int = 0,
    ) -> None:
        if scale <= 0 or num_classes < 0:
            raise InvalidArgumentError(
                f"[{type(self).__name__}] expected a positive scale and num_classes of "
                f"at least 0, got {scale} and {num_classes}"
            )
        self._stem, self.stages = list(stem), list(stages)
        self._last, self._classes = last, num_classes
        choices: dict[str, tuple[Any, ...]] = {}
        initial: Arch = {}
        for i, stage in enumerate(self.stages):
            widths = [_divisible(stage.channels * scale * w) for w in _WIDTHS]
            options = {
                "channels": tuple(dict.fromkeys(widths)),
                "repeats": stage.repeats,
                "kernel": stage.kernels,
                "expansion": stage.expansions,
            }
            for what, values in options.items():
                if len(values) > 1:
                    choices[f"stage{i}.{what}"] = values
            choices.setdefault(f"stage{i}.channels", options["channels"])
            published = _divisible(stage.channels * scale)
            initial[f"stage{i}.channels"] = published
        super().__init__(choices, self._blocks)
        first = {name: values[0] for name, values in self.choices.items()}
        self._initial = self.tokens({**first, **initial})

    def _blocks(self, arch: Arch) -> list[Block | None]:
        plan: list[Block | None] = list(self._stem)
        channels = self._stem[-1].channels
        for i, stage in enumerate(self.stages):
            out = arch[f"stage{i}.channels"]
            count = arch.get(f"stage{i}.repeats", stage.repeats[0])
            kernel = arch.get(f"stage{i}.kernel", stage.kernels[0])
            expansion = arch.get(f"stage{i}.expansion", stage.expansions[0])
            for k in range(max(stage.repeats)):
                if k >= count:
                    plan.append(None)
                    continue
                stride = stage.stride if k == 0 else 1
                plan.append(Block(stage.kind, channels, out, kernel, stride, expansion))
                channels = out
        if self._last:
            plan.append(Block("conv", channels, self._last, 1))
            channels = self._last
        if self._classes:
            plan.append(Block("head", channels, self._classes))
        return plan


def _until(stages: Sequence[Stage], halvings: int, name: str) -> list[Stage]:
    """The stages that halve so often, with those after that do not."""
    found: list[Stage] = []
    count = 0
    for stage in stages:
        count += stage.stride == 2
        if count > halvings:
            return found
        found.append(stage)
    if count < halvings:
        raise InvalidArgumentError(
            f"[{name}] expected at most {count} stages that halve, got {halvings}"
        )
    return found


class _WholeSpace(StagedSpace):
    """A published network with choices; see `MobileNetV1Space`."""

    _stages: tuple[Stage, ...]
    _last_channels = 0

    def __init__(
        self,
        input_size: int = 224,
        output_size: int = 7,
        block_num: int = 5,
        block_mask: Sequence[int] | None = None,
        scale: float = 1.0,
        num_classes: int = 1000,
        in_channels: int = 3,
    ) -> None:
        name = type(self).__name__
        if block_mask is not None:
            raise InvalidArgumentError(
                f"[{name}] block_mask is for spaces of blocks, got {block_mask}"
            )
        _check_sizes(name, input_size, output_size, block_num)
        stem = self._stem_of(in_channels, scale)
        halvings = block_num - sum(block.stride == 2 for block in stem)
        stages = _until(self._stages, halvings, name)
        last = _divisible(self._last_channels * scale) if self._last_channels else 0
        self.input_shape = [None, in_channels, input_size, input_size]
        super().__init__(stem, stages, scale, last if num_classes else 0, num_classes)

    def _stem_of(self, in_channels: int, scale: float) -> list[Block]:
        return [Block("conv", in_channels, _divisible(32 * scale), 3, 2)]


@SEARCHSPACE.register
class MobileNetV1Space(_WholeSpace):
    """Networks like MobileNetV1: widths, kernels and numbers of separable blocks.

    Args:
        input_size: Height and width of images.
        output_size: Size of the last feature map: input_size halved block_num times.
        block_num: How often the network halves images, the stem's time included.
        block_mask: None; it is for spaces of blocks.
        scale: What channels are multiplied by.
        num_classes: Size of the linear layer at the end; 0 for a feature map.
        in_channels: Number of channels of images.

    Raises:
        InvalidArgumentError: If sizes do not fit, or a number is out of its range.
    """

    _stages = tuple(
        Stage(channels, repeats, stride, kind="separable")
        for channels, repeats, stride in (
            (64, (1,), 1), (128, (2, 1), 2), (256, (2, 1, 3), 2),
            (512, (6, 2, 4), 2), (1024, (2, 1), 2),
        )
    )  # fmt: skip


@SEARCHSPACE.register
class MobileNetV2Space(_WholeSpace):
    """Networks like MobileNetV2: widths, kernels, expansions and numbers of inverted
    residuals. Arguments and errors are those of `MobileNetV1Space`.
    """

    _last_channels = 1280
    _stages = (
        Stage(16, (1,), 1, (3, 5), (1.0,), "inverted"),
        *(
            Stage(channels, repeats, stride, (3, 5, 7), (6.0, 3.0), "inverted")
            for channels, repeats, stride in (
                (24, (2, 1, 3), 2), (32, (3, 2, 4), 2), (64, (4, 2, 3), 2),
                (96, (3, 2, 4), 1), (160, (3, 2, 4), 2), (320, (1, 2), 1),
            )
        ),
    )  # fmt: skip


@SEARCHSPACE.register
class ResNetSpace(_WholeSpace):
    """Networks like ResNet-18 to 50: widths and numbers of basic blocks, and their
    kernels. Arguments and errors are those of `MobileNetV1Space`.
    """

    _stages = tuple(
        Stage(channels, repeats, stride, (3,), kind="basic")
        for channels, repeats, stride in (
            (64, (2, 1, 3), 1), (128, (2, 1, 3, 4), 2), (256, (2, 1, 4, 6), 2),
            (512, (2, 1, 3), 2),
        )
    )  # fmt: skip

    def _stem_of(self, in_channels: int, scale: float) -> list[Block]:
        width = _divisible(64 * scale)
        return [
            Block("conv", in_channels, width, 7, 2),
            Block("pool", width, width, 3, 2),
        ]


@SEARCHSPACE.register
class BlazeFaceSpace(_WholeSpace):
    """Backbones like BlazeFace's: widths, kernels and numbers of blocks, single and
    double. Images of 128 end at 8; without classes by default, as detectors have heads
    of their own. Arguments and errors are those of `MobileNetV1Space`.
    """

    _stages = (
        Stage(24, (3, 2, 4), 1, (5, 3), kind="blaze"),
        Stage(56, (3, 2, 4), 2, (5, 3), kind="blaze"),
        Stage(96, (3, 2, 4), 2, (5, 3), (0.25, 0.5), kind="double_blaze"),
        Stage(192, (3, 2, 4), 2, (5, 3), (0.25, 0.125), kind="double_blaze"),
    )

    def __init__(
        self,
        input_size: int = 128,
        output_size: int = 8,
        block_num: int = 4,
        block_mask: Sequence[int] | None = None,
        scale: float = 1.0,
        num_classes: int = 0,
        in_channels: int = 3,
    ) -> None:
        super().__init__(
            input_size, output_size, block_num, block_mask, scale, num_classes,
            in_channels,
        )  # fmt: skip

    def _stem_of(self, in_channels: int, scale: float) -> list[Block]:
        # Blaze blocks never have fewer channels than their input.
        return [Block("conv", in_channels, 8, 5, 2)]

    def _blocks(self, arch: Arch) -> list[Block | None]:
        plan = super()._blocks(arch)
        channels = self._stem[-1].channels
        results: list[Block | None] = []
        for block in plan:
            if block is not None and block.kind.endswith("blaze"):
                out = max(channels, block.channels)
                block = Block(
                    block.kind, channels, out, block.kernel, block.stride,
                    block.expansion,
                )  # fmt: skip
                channels = out
            elif block is not None and block.kind in ("head", "conv") and results:
                block = Block(block.kind, channels, block.channels, 1)
            results.append(block)
        return results


class _BlockSpace(StagedSpace):
    """Blocks of one kind, each with choices; see `MobileNetV1BlockSpace`."""

    _kind: str
    _kernels: tuple[int, ...] = (3, 5)
    _expansions: tuple[float, ...] = (1.0,)

    def __init__(
        self,
        input_size: int | None = None,
        output_size: int | None = None,
        block_num: int | None = None,
        block_mask: Sequence[int] | None = None,
        scale: float = 1.0,
        in_channels: int = 32,
    ) -> None:
        name = type(self).__name__
        if block_mask is None:
            if input_size is None or output_size is None or block_num is None:
                raise InvalidArgumentError(
                    f"[{name}] expected block_mask, or input_size, output_size and "
                    "block_num, got neither"
                )
            _check_sizes(name, input_size, output_size, block_num)
            block_mask = [1] * block_num
        if not block_mask or any(mask not in (0, 1) for mask in block_mask):
            raise InvalidArgumentError(
                f"[{name}] expected block_mask of 0 and 1, got {block_mask}"
            )
        stages, channels = [], in_channels
        for mask in block_mask:
            channels *= 2 if mask else 1
            stages.append(
                Stage(
                    channels, (1, 2, 3), 2 if mask else 1, self._kernels,
                    self._expansions, self._kind,
                )
            )  # fmt: skip
        begin = Block("identity", in_channels, in_channels)
        self.input_shape = [None, in_channels, input_size, input_size]
        super().__init__([begin], stages, scale)


@SEARCHSPACE.register
class MobileNetV1BlockSpace(_BlockSpace):
    """Separable blocks, to be put into a network of one's own.

    Args:
        input_size, output_size, block_num: Feature maps, halved by each of the blocks.
        block_mask: In place of these: 1 for blocks that halve, 0 for others. One that
            halves has twice the channels.
        scale: What channels are multiplied by.
        in_channels: Number of channels of the feature map that the first block gets.

    Raises:
        InvalidArgumentError: If sizes do not fit, or a number is out of its range.
    """

    _kind = "separable"


@SEARCHSPACE.register
class MobileNetV2BlockSpace(_BlockSpace):
    """Inverted residuals, with expansions; see `MobileNetV1BlockSpace`."""

    _kind, _kernels, _expansions = "inverted", (3, 5, 7), (6.0, 3.0)


@SEARCHSPACE.register
class ResNetBlockSpace(_BlockSpace):
    """Bottleneck blocks; see `MobileNetV1BlockSpace`."""

    _kind, _kernels, _expansions = "bottleneck", (3,), (0.25, 0.5)
