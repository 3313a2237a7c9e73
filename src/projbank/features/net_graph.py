"""EfficientNet-lite0 as an ONNX graph, built from its weights: images in, the last convolutional map but one out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

SIDE = 224
"""Width and height of the images that go in."""
EPSILON = 1e-3
"""Added to the variances of batch normalisation, as in training."""
N_BLOCKS = 16
STRIDED = frozenset((1, 3, 5, 11))
"""Blocks that halve the map."""
OPSET, IR_VERSION = 13, 8


def build_graph(weights: dict[str, NDArray[Any]]) -> bytes:
    """Return the net up to its last block as a serialised ONNX model.

    Input "images": float32 (n, 3, 224, 224), red, green, blue, (x - 127) / 128. Output "map": float32 (n, 320, 7, 7).
    Batch normalisation is folded into the convolutions before it.
    """
    from onnx import TensorProto, checker, helper

    graph = Graph(weights)
    x = graph.convolve("images", "_conv_stem", "_bn0", stride=2)
    for i in range(N_BLOCKS):
        x = graph.block(x, f"_blocks.{i}.", 2 if i in STRIDED else 1)
    graph.nodes.append(helper.make_node("Identity", [x], ["map"]))
    channels = graph.channels[x]
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "efficientnet-lite0",
            [helper.make_tensor_value_info("images", TensorProto.FLOAT, ["n", 3, SIDE, SIDE])],
            [helper.make_tensor_value_info("map", TensorProto.FLOAT, ["n", channels, SIDE // 32, SIDE // 32])],
            graph.constants,
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
    )
    checker.check_model(model)
    data: bytes = model.SerializeToString()
    return data


class Graph:
    """Nodes and constants of a graph as it grows; values are named after the weights that make them."""

    def __init__(self, weights: dict[str, NDArray[Any]]) -> None:
        from onnx import numpy_helper

        self.weights = weights
        self.nodes: list[Any] = []
        self.channels: dict[str, int] = {}
        limits = {"zero": np.float32(0), "six": np.float32(6)}
        self.constants = [numpy_helper.from_array(np.asarray(value), name) for name, value in limits.items()]

    def block(self, x: str, prefix: str, stride: int) -> str:
        """Inverted residual: widen, filter each channel for itself, narrow; the input is added where it fits."""
        inside = x
        if f"{prefix}_expand_conv.weight" in self.weights:
            inside = self.convolve(inside, f"{prefix}_expand_conv", f"{prefix}_bn0")
        inside = self.convolve(inside, f"{prefix}_depthwise_conv", f"{prefix}_bn1", stride=stride)
        out = self.convolve(inside, f"{prefix}_project_conv", f"{prefix}_bn2", clip=False)
        if stride > 1 or self.channels.get(x) != self.channels[out]:
            return out
        return self._node("Add", [x, out], f"{prefix}sum", self.channels[out])

    def convolve(self, x: str, conv: str, norm: str, *, stride: int = 1, clip: bool = True) -> str:
        """Convolution and batch normalisation in one node, then ReLU6 in another."""
        from onnx import numpy_helper

        filters, bias = self._folded(conv, norm)
        names = [f"{conv}.filters", f"{conv}.bias"]
        self.constants += [
            numpy_helper.from_array(array, name) for array, name in zip((filters, bias), names, strict=True)
        ]
        groups = 1 if filters.shape[1] == self.channels.get(x, 3) else len(filters)
        out = self._node(
            "Conv",
            [x, *names],
            f"{conv}.out",
            len(filters),
            auto_pad="SAME_UPPER",
            group=groups,
            kernel_shape=list(filters.shape[2:]),
            strides=[stride, stride],
        )
        return self._node("Clip", [out, "zero", "six"], f"{conv}.clipped", len(filters)) if clip else out

    def _folded(self, conv: str, norm: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        scale, shift, mean, variance = (
            self.weights[f"{norm}.{part}"].astype(np.float64)
            for part in ("weight", "bias", "running_mean", "running_var")
        )
        factor = scale / np.sqrt(variance + EPSILON)
        filters = self.weights[f"{conv}.weight"] * factor[:, None, None, None]
        return filters.astype(np.float32), (shift - mean * factor).astype(np.float32)

    def _node(self, kind: str, inputs: list[str], name: str, channels: int, **attributes: Any) -> str:
        from onnx import helper

        self.nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        self.channels[name] = channels
        return name
