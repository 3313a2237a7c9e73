"""One small file of every format that projbank reads, and how a program would use it."""

import hashlib
import io
import json
import shutil
import zipfile
from pathlib import Path

import cv2
import h5py
import numpy as np
import scipy.sparse as sp

from projbank import HammingIndex, ProjectionBank, load
from projbank.evaluate.data import DataSet
from projbank.evaluate.results import ResultFile, read_results
from projbank.features.coder import MediaCoder
from projbank.features.extract import Outputs, extract
from projbank.features.extractor import build_extractor
from projbank.features.media import MediaError, read_photo
from projbank.features.outputs import Previous
from projbank.features.readers import open_source
from projbank.integrity import add_note, open_npy, read_note
from projbank.rows.files import open_vectors
from projbank.stores import FaissStore
from projbank.tensorfile import read_tensors, write_tensors
from projbank.text.encoding import FixedDimensionalEncoding
from tests.fuzz.case import Format
from tests.fuzz.foreign import foreign_formats
from tests.fuzz.kept import kept_formats
from tests.fuzz.mutate import lie

OLD = Path(__file__).parents[1] / "data" / "0.1.0"
X = np.load(OLD / "inputs.npz")["Q"]


def formats(folder):
    """All of them; `folder` is for scratch."""
    bank = load(OLD / "bank-random.safetensors").set_params(n_jobs=1)
    ours = [*_models(folder), *_indexes(folder), *_arrays(folder), *_vectors(folder), *_features(folder)]
    return [*ours, *kept_formats(folder), *foreign_formats(folder, bank)]


def digest(answer):
    """One word for an answer: arrays, numbers, words."""
    found = hashlib.blake2b(digest_size=8)
    for part in answer if isinstance(answer, (tuple, list)) else [answer]:
        array = np.ascontiguousarray(part) if isinstance(part, np.ndarray) else None
        text = repr(part).encode() if array is None else repr((array.shape, array.dtype.str)).encode() + array.tobytes()
        found.update(text)
    return found.hexdigest()


def _saved(folder, write):
    path = folder / "seed"
    path.unlink(missing_ok=True)
    write(path)
    content = path.read_bytes()
    path.unlink()
    return content


def _use_model(inputs):
    def use(path):
        model = load(path)
        answer = [model.transform(inputs)]
        if hasattr(model, "decision_function"):
            answer.append(model.decision_function(inputs))
        return answer

    return use


def _models(folder):
    inputs = np.load(OLD / "inputs.npz")
    for path in sorted(OLD.glob("*.safetensors")):
        given = inputs[{"vlad": "bags", "fisher": "bags", "extractor": "images"}.get(path.stem, "Q")]
        use = _use_model(given)
        model = load(path)
        model.set_params(**({"n_jobs": 1} if "n_jobs" in model.get_params() else {}))
        new = _saved(folder, model.save)
        yield Format(f"model {path.stem}", new, use, checked=True)
        yield Format(f"model {path.stem}, lying", new, use, checked=False, change=_lie(folder))
        yield Format(f"model {path.stem} of 0.1.0", path.read_bytes(), use, checked=False)
    for name, content, use in _new_models(folder):
        yield Format(name, content, use, checked=True)
        yield Format(f"{name}, lying", content, use, checked=False, change=_lie(folder))


def _new_models(folder):
    """What projbank 0.1.0 did not have."""
    rng = np.random.default_rng(4)
    rows = rng.standard_normal((80, 40)).astype(np.float32)
    mixed = ProjectionBank(16, solver="mixed", n_neighbors=5, max_iter=2, n_jobs=1).fit(rows)
    texts = [rng.standard_normal((6, 12)).astype(np.float32) for _ in range(5)]
    text = FixedDimensionalEncoding(4, 3, 2, n_jobs=1).fit(texts)
    extractor = load(OLD / "extractor.safetensors")
    images = np.load(OLD / "inputs.npz")["images"]
    described = extractor.transform(images)
    coder = MediaCoder(extractor, ProjectionBank(8, solver="random", n_jobs=1).fit(described))
    for name, model, inputs in (("mixed", mixed, rows[:5]), ("text", text, texts), ("media", coder, images[:2])):
        yield f"model {name}", _saved(folder, model.save), _use_model(inputs)


def _lie(folder):
    """Change arrays and parameters and sign them anew, as a forger would."""

    def change(content, rng):
        path = folder / "lie"
        path.write_bytes(content)
        header, arrays = read_tensors(path)
        params = json.loads(header.metadata["params"])
        lie(arrays, params, rng)
        write_tensors(path, arrays, header.metadata | {"params": json.dumps(params)})
        return path.read_bytes()

    return change


def _indexes(folder):
    rng = np.random.default_rng(0)
    codes, queries = rng.integers(0, 256, (300, 7), np.uint8), rng.integers(0, 256, (4, 7), np.uint8)
    codes[:, -1] &= 15
    queries[:, -1] &= 15

    def use(path):
        index = HammingIndex.load(path)
        return [index.n_bits, index.ids, index.codes, *index.search(queries, 5, n_jobs=1)]

    def grown(path):
        index = HammingIndex(
            codes[:200], ids=[f"photo {i}" for i in range(200)], payload=[{"n": i} for i in range(200)]
        )
        index.save(path)
        index.add(codes[200:], ids=[f"photo {i}" for i in range(200, 300)], payload=list(range(100))).save()
        index.remove(["photo 7"]).save()

    def use_grown(path):
        index = HammingIndex.load(path)
        distances, ids = index.search(queries, 5, n_jobs=1)
        return [list(index.ids), index.codes, distances, list(ids.ravel()), index.payload(list(ids[0]))]

    yield Format("index that has grown", _saved(folder, grown), use_grown, checked=True)
    yield from _stores(folder, codes, queries)
    index = HammingIndex(codes, ids=rng.permutation(1000)[:300], n_bits=52)
    yield Format("index", _saved(folder, index.save), use, checked=True)
    yield Format(
        "index of 0.1.0",
        (OLD / "index.pbi").read_bytes(),
        lambda path: HammingIndex.load(path).search(
            np.zeros((1, HammingIndex.load(path).codes.shape[1]), np.uint8), 3, n_jobs=1
        ),
        checked=False,
    )


def _stores(folder, codes, queries):
    place = folder / "store"
    with FaissStore(place) as store:
        store.create(56).add(codes)
    contents = {name: (place / name).read_bytes() for name in ("index.faiss", "store.json")}

    def use(name):
        def used(path):
            for other, content in contents.items():
                (place / other).write_bytes(path.read_bytes() if other == name else content)
            return list(FaissStore(place).search(queries, 5))

        return used

    for name, content in contents.items():
        yield Format(f"store: {name}", content, use(name), checked=True)


def _has_note(path):
    return read_note(path) is not None


def _arrays(folder):
    def codes(path):
        with open(path, "wb") as file:
            np.save(file, np.arange(700, dtype=np.uint8).reshape(100, 7))
        add_note(path, kind="codes", made_by="Bank:0", n_bits=56)

    def use(path):
        array, note = open_npy(path)
        return [np.array(array), note]

    def results(path):
        key = {"dataset": "a", "method": "lsh", "n_bits": 8, "seed": 0, "params": {}, "protocol": {"queries": 3}}
        ResultFile(path).put({**key, "precision": {"10": 0.5}})

    # where damage leaves a note no note, the numbers are right, or there is an error; cut off whole, it leaves an array
    yield Format("codes", _saved(folder, codes), lambda path: use(path)[0], checked=_has_note, suffix=".npy")
    yield Format("results", _saved(folder, results), read_results, checked=False, suffix=".json")


def _vectors(folder):
    bank = load(OLD / "bank-random.safetensors")
    dense = np.random.default_rng(1).standard_normal((20, bank.n_features_in_)).astype(np.float32)
    sparse = sp.csr_array(dense * (dense > 1))

    def use(path):
        return bank.set_params(n_jobs=1).transform(open_vectors(path))

    def hdf5(**options):
        def write(path):
            with h5py.File(path, "w") as file:
                file.create_dataset("a/X", data=dense, **options)

        return write

    def noted(path):
        with open(path, "wb") as file:
            np.save(file, dense)
        add_note(path, kind="vectors", made_by="FeatureExtractor:0")

    def archive(*arrays, **named):
        file = io.BytesIO()
        np.savez_compressed(file, *arrays, **named)
        return file.getvalue()

    def saved_sparse(**options):
        file = io.BytesIO()
        sp.save_npz(file, sparse, **options)
        return file.getvalue()

    def lie_sparse(content, rng):
        arrays = dict(np.load(io.BytesIO(content)))
        lie(arrays, {}, rng)
        return archive(**arrays)

    plain = io.BytesIO()
    np.save(plain, dense)
    yield Format("vectors", _saved(folder, noted), use, checked=_has_note, suffix=".npy")
    yield Format("plain .npy", plain.getvalue(), use, checked=False, suffix=".npy")
    yield Format(".npz", archive(X=dense), use, checked=True, suffix=".npz")
    yield Format("sparse .npz", saved_sparse(), use, checked=True, suffix=".npz")
    yield Format("sparse .npz, stored", saved_sparse(compressed=False), use, checked=True, suffix=".npz")
    yield Format("sparse .npz, lying", saved_sparse(), use, checked=False, suffix=".npz", change=lie_sparse)
    yield Format("HDF5", _saved(folder, hdf5()), use, checked=False, suffix=".h5")
    yield Format("HDF5, chunks", _saved(folder, hdf5(chunks=(4, 8), compression=4)), use, checked=False, suffix=".h5")

    def labelled(path):
        data = DataSet("x", dense, open_npy(path)[0])
        return [np.asarray(data.labels)]

    labels = io.BytesIO()
    np.save(labels, np.arange(20) % 3)
    yield Format("labels", labels.getvalue(), labelled, checked=False, suffix=".npy")


def _features(folder):
    rng = np.random.default_rng(2)
    pictures = [cv2.GaussianBlur(rng.integers(0, 256, (40, 40 + i), np.uint8), (5, 5), 2) for i in range(3)]
    suffixes = (".png", ".jpg", ".bmp", ".tif", ".webp", ".pgm")
    coded = {suffix: cv2.imencode(suffix, pictures[0])[1].tobytes() for suffix in suffixes}

    def decode(path):
        return read_photo(path.read_bytes(), path.name).image

    for suffix, content in coded.items():
        yield Format(f"picture {suffix}", content, decode, checked=False, suffix=suffix)
    yield Format("zip of pictures", _zip(coded), _read_zip, checked=False, suffix=".zip")

    work = folder / "features"
    (work / "in").mkdir(parents=True, exist_ok=True)
    for i, picture in enumerate(pictures):
        cv2.imwrite(str(work / "in" / f"{i}.png"), picture)
    outputs = Outputs(work / "v.npy")
    extractor = build_extractor(kind="vlad", components=2, bin_sizes=[4], step=8)
    extract(open_source(work / "in"), extractor, outputs.vectors, n_jobs=1)
    for target, checked in (("vectors", True), ("codebook", True), ("record", False), ("labels", True)):
        use = _use_features(outputs, target, work / "case")
        yield Format(f"features: {target}", getattr(outputs, target).read_bytes(), use, checked=checked)


def _zip(coded):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        names = [f"{i % 2}/{i}{suffix}" for i, suffix in enumerate(coded)]
        for name, content in zip(names, coded.values(), strict=True):
            archive.writestr(name, content)
        lines = [f"{name},{i},c{i}" for i, name in enumerate(names)]
        archive.writestr("labels.csv", "\n".join(["file,label,class", *lines, ""]))
    return file.getvalue()


def _read_zip(path):
    source = open_source(path)
    found = []
    for item in source.items:
        try:
            found.append(read_photo(source.read(item), item.file).image.shape)
        except MediaError as error:
            found.append(str(error))
    return [len(found)]


def _use_features(outputs, target, folder):
    """Go on from vectors of an earlier run, one file of which is not what it was."""

    def use(path):
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(outputs.vectors.parent, folder, ignore=shutil.ignore_patterns("in", "case"))
        here = Outputs(folder / outputs.vectors.name)
        shutil.copyfile(path, getattr(here, target))
        found = Previous.read(here)
        return [found.vectors, found.labels] if target in ("vectors", "labels") else [len(found.lines)]

    return use
