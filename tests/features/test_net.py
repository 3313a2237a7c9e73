"""The net: weights are read without PyTorch and without running anything; convolutions equal literal sums."""

import io
import os
import pickle
import struct

import numpy as np
import pytest

from projbank import ModelFileError, load
from projbank.features import net
from projbank.features.net import MAGIC, WeightFileError, read_weights


class _Saved:
    """Stands for a tensor while a file like PyTorch's is written: its pickle calls torch._utils._rebuild_tensor_v2."""

    def __init__(self, array, key, strides=None, offset=0, shape=None, size=None):
        self.array, self.key, self.offset = np.ascontiguousarray(array), key, offset
        self.shape = self.array.shape if shape is None else shape
        self.strides = tuple(s // array.itemsize for s in self.array.strides) if strides is None else strides
        self.size = self.array.size if size is None else size


def named(module, name):
    return f"c{module}\n{name}\n".encode()


def put(value):
    """A plain value as a pickle without its end."""
    return pickle.dumps(value, 2)[2:-1]


def tensor_pickle(saved):
    kind = {"f": "FloatStorage", "i": "LongStorage"}[saved.array.dtype.kind]
    storage = b"(" + put("storage") + named("torch", kind) + put(saved.key) + put("cpu") + put(saved.size) + b"NtQ"
    return (
        named("torch._utils", "_rebuild_tensor_v2")
        + b"("
        + storage
        + put(saved.offset)
        + put(saved.shape)
        + put(saved.strides)
        + b"\x89"
        + named("collections", "OrderedDict")
        + b")RtR"
    )


def weight_file(tensors, extra=b"", order=None):
    """A file as PyTorch before 1.6 writes it."""
    out = io.BytesIO()
    for value in (MAGIC, 1001, {"little_endian": True}):
        out.write(pickle.dumps(value, 2))
    body = b"".join(put(name) + tensor_pickle(saved) + b"s" for name, saved in tensors.items())
    out.write(b"\x80\x02" + named("collections", "OrderedDict") + b")R" + body + extra + b".")
    keys = [saved.key for saved in tensors.values()] if order is None else order
    out.write(pickle.dumps(list(dict.fromkeys(keys)), 2))
    for saved in {saved.key: saved for saved in tensors.values()}.values():
        out.write(struct.pack("<q", saved.array.size) + saved.array.tobytes())
    return out.getvalue()


ARRAYS = {
    "a": np.arange(24, dtype=np.float32).reshape(2, 3, 4),
    "n": np.array(7, dtype=np.int64),
    "empty": np.zeros((0, 3), dtype=np.float32),
}


def test_tensors_are_read_as_they_were_written(tmp_path):
    saved = {name: _Saved(array, str(i)) for i, (name, array) in enumerate(ARRAYS.items())}
    turned = _Saved(ARRAYS["a"], "0", strides=(1, 4), offset=1, shape=(3, 6))
    (tmp_path / "w.pth").write_bytes(weight_file({**saved, "turned": turned}))
    found = read_weights(tmp_path / "w.pth")
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype
    np.testing.assert_array_equal(found["turned"], [[1 + i + 4 * j for j in range(6)] for i in range(3)][:3])


@pytest.mark.parametrize(
    ("module", "name"),
    [("os", "system"), ("builtins", "eval"), ("torch", "load"), ("numpy", "load"), ("posix", "mkdir")],
)
def test_nothing_in_a_file_is_run(tmp_path, module, name):
    made = tmp_path / "made"
    attack = put("x") + named(module, name) + b"(" + put(os.fspath(made)) + b"tRs"
    (tmp_path / "w.pth").write_bytes(weight_file({"a": _Saved(ARRAYS["a"], "0")}, attack))
    with pytest.raises(WeightFileError, match=rf"asks for {module}.{name}"):
        read_weights(tmp_path / "w.pth")
    assert not made.exists()


@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        ({"strides": (100, 4, 1)}, "reaches beyond"),
        ({"offset": 1}, "reaches beyond"),
        ({"offset": -1}, "shape that is none"),
        ({"shape": (2, -3, 4)}, "shape that is none"),
        ({"shape": (1 << 40,), "strides": (0,)}, "more numbers"),
        ({"size": 1 << 40}, "more than"),
        ({"size": 25}, "cut short"),
    ],
)
def test_tensors_that_reach_beyond_their_numbers_are_refused(tmp_path, tensor, message):
    (tmp_path / "w.pth").write_bytes(weight_file({"a": _Saved(ARRAYS["a"], "0", **tensor)}))
    with pytest.raises(WeightFileError, match=message):
        read_weights(tmp_path / "w.pth")


def test_parts_of_a_tensor_can_not_be_set_later(tmp_path):
    attack = put("x") + tensor_pickle(_Saved(ARRAYS["a"], "0")) + put({"_parts": (None, 0, (9,), (1,))}) + b"bs"
    (tmp_path / "w.pth").write_bytes(weight_file({"a": _Saved(ARRAYS["a"], "0")}, attack))
    with pytest.raises(WeightFileError, match="not a file of tensors"):
        read_weights(tmp_path / "w.pth")


def test_other_content_and_damage_are_refused(tmp_path):
    good = weight_file({"a": _Saved(ARRAYS["a"], "0")})
    (tmp_path / "w.pth").write_bytes(weight_file({"a": _Saved(ARRAYS["a"], "0")}, put("x") + put("text") + b"s"))
    with pytest.raises(WeightFileError, match="more than tensors"):
        read_weights(tmp_path / "w.pth")
    (tmp_path / "w.pth").write_bytes(weight_file({"a": _Saved(ARRAYS["a"], "0")}, order=["1"]))
    with pytest.raises(WeightFileError, match="list of storages"):
        read_weights(tmp_path / "w.pth")
    for cut in range(len(good)):
        (tmp_path / "w.pth").write_bytes(good[:cut])
        with pytest.raises(WeightFileError):
            read_weights(tmp_path / "w.pth")


def literal_convolution(image, filters, groups, stride):
    """Sum over every window; zeros around the image as TensorFlow's SAME puts them."""
    n_out, per_group, side, _ = filters.shape
    height, width = -(-image.shape[1] // stride), -(-image.shape[2] // stride)
    pads = [max(0, (n - 1) * stride + side - m) for n, m in ((height, image.shape[1]), (width, image.shape[2]))]
    padded = np.pad(image, ((0, 0), *((pad // 2, pad - pad // 2) for pad in pads)))
    out = np.zeros((n_out, height, width))
    for o in range(n_out):
        channels = padded[o // (n_out // groups) * per_group :][:per_group]
        for y in range(height):
            for x in range(width):
                out[o, y, x] = np.sum(filters[o] * channels[:, y * stride :, x * stride :][:, :side, :side])
    return out


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("depthwise", [False, True])
@pytest.mark.parametrize("side", [1, 3, 5])
def test_convolutions_equal_literal_sums(stride, depthwise, side):
    onnx, runtime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    from projbank.features.net import EPSILON, Graph

    rng = np.random.default_rng(side)
    n_out = 3 if depthwise else 4
    weights = {"c.weight": rng.normal(size=(n_out, 1 if depthwise else 3, side, side)).astype(np.float32)}
    for part in ("weight", "bias", "running_mean"):
        weights[f"n.{part}"] = rng.normal(size=n_out).astype(np.float32)
    weights["n.running_var"] = rng.uniform(0.5, 2, n_out).astype(np.float32)
    graph = Graph(weights)
    out = graph.convolve("images", "c", "n", stride=stride)
    tensor = onnx.helper.make_tensor_value_info
    model = onnx.helper.make_model(
        onnx.helper.make_graph(
            graph.nodes,
            "g",
            [tensor("images", onnx.TensorProto.FLOAT, [1, 3, 8, 7])],
            [tensor(out, onnx.TensorProto.FLOAT, None)],
            graph.constants,
        ),
        opset_imports=[onnx.helper.make_opsetid("", 13)],
        ir_version=8,
    )
    image = rng.normal(size=(1, 3, 8, 7)).astype(np.float32)
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    scale = weights["n.weight"] / np.sqrt(weights["n.running_var"] + EPSILON)
    summed = literal_convolution(image[0], weights["c.weight"], 3 if depthwise else 1, stride)
    normed = (summed - weights["n.running_mean"][:, None, None]) * scale[:, None, None]
    expected = np.clip(normed + weights["n.bias"][:, None, None], 0, 6)
    np.testing.assert_allclose(session.run(None, {"images": image})[0][0], expected, atol=1e-4)


def test_the_net_describes_pictures(tmp_path):
    if not net.ConvMaps.is_installed():
        pytest.skip('needs the extra "photos"')
    maps = net.ConvMaps()
    y, x = np.mgrid[:90, :120]
    picture = np.stack([2 * x, 2 * y, x + y], axis=2).astype(np.uint8)
    vector = maps.vector(picture)
    assert vector.shape == (maps.n_dims_,) == (15_680,)
    assert vector.dtype == np.float32
    assert np.isclose(np.linalg.norm(vector), 1)
    grey = np.repeat(picture[:, :, :1], 3, axis=2)
    np.testing.assert_array_equal(maps.vector(grey), maps.vector(picture[:, :, 0]))
    small = maps.vector(picture[::2, ::2])
    other = maps.vector(np.random.default_rng(0).integers(0, 256, (90, 120, 3)).astype(np.uint8))
    assert vector @ small > vector @ other
    maps.save(tmp_path / "net.safetensors")
    again = load(tmp_path / "net.safetensors")
    np.testing.assert_array_equal(again.vector(picture), vector)
    assert again.identity() == maps.identity()
    with pytest.raises(ValueError, match="were made with the weights 00ff, but"):
        net.ConvMaps("00ff").vector(picture)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr(net, "NEEDS", ("not_installed_anywhere",))
    assert not net.ConvMaps.is_installed()
    with pytest.raises(ImportError, match=r"not_installed_anywhere: pip install \'\.\[photos\]\'"):
        net.ConvMaps().check()


def test_a_file_without_weights_is_refused(tmp_path):
    from projbank.models.file import write_model

    write_model(tmp_path / "net.safetensors", net.ConvMaps("00ff"), {}, {})
    with pytest.raises(ModelFileError, match="names no weights"):
        load(tmp_path / "net.safetensors")
