"""What the library keeps for its users in files of its own making: albums, stores, shards, journals, exports."""

import numpy as np

from projbank import HammingIndex
from projbank.album import Album
from projbank.album.duplicates import find_duplicates
from projbank.album.thumbs import thumbnail
from projbank.cli.search import read_ids, read_payload
from projbank.features.readers import open_source
from projbank.features.rowfile import RowFile
from projbank.features.straight import compared
from projbank.kinds import kind_of
from projbank.stores import FaissStore, SqliteStore
from projbank.stores.export import export
from projbank.upkeep.sources import open_codes
from tests.album.photos import folder_of
from tests.fuzz.case import Format, of_folder


def kept_formats(folder):
    """All of them; `folder` is for scratch."""
    rng = np.random.default_rng(6)
    codes, queries = rng.integers(0, 256, (120, 7), np.uint8), rng.integers(0, 256, (4, 7), np.uint8)
    yield from _indexes(folder, codes, queries)
    yield from _stores(folder, codes, queries)
    yield from _album(folder)
    yield from _journals(folder)
    yield from _texts(folder, codes)


def _indexes(folder, codes, queries):
    place = folder / "shards"
    place.mkdir(exist_ok=True)
    for name, part in (("a.pbi", slice(0, 60)), ("b.pbi", slice(60, 120))):
        index = HammingIndex(codes[part], ids=np.arange(120)[part], made_by="Bank:0")
        index.save(place / name)
        index.remove([index.ids[3]]).save()

    def use(case):
        index = HammingIndex.load([case / "a.pbi", case / "b.pbi"])
        return [index.ids, index.codes, *index.search(queries, 5, n_jobs=1)]

    yield of_folder("shards", place, "b.pbi", use, checked=True)
    many = np.random.default_rng(7).integers(0, 256, (3000, 7), np.uint8)
    quick = HammingIndex(many, recall=0.9)
    quick.search(queries, 5, n_jobs=1)
    quick.save(folder / "lists.pbi")

    def use_lists(path):
        index = HammingIndex.load(path)
        return [index.ids, index.codes, *index.search(queries, 5, n_jobs=1)]

    yield Format("index with lists", (folder / "lists.pbi").read_bytes(), use_lists, checked=True)


def _stores(folder, codes, queries):
    for title, options in (
        ("numbers", {}),
        ("texts", {"ids": [f"a {i}" for i in range(len(codes))], "payload": codes.tolist()}),
    ):
        path = folder / "codes.sqlite"
        path.unlink(missing_ok=True)
        with SqliteStore(path) as store:
            store.create(56).add(codes, **options)

        def use(path):
            with SqliteStore(path) as store:
                distances, ids = store.search(queries, 5)
                found = [store.n_bits, store.count(), distances, list(ids.ravel())]
                return [*found, store.payload([one for one in ids[0] if one is not None and one != -1])]

        yield Format(f"SQLite store, {title}", path.read_bytes(), use, checked=False)
    place = folder / "faiss texts"
    with FaissStore(place) as store:
        store.create(56).add(codes, ids=[f"a {i}" for i in range(len(codes))], payload=codes.tolist())

    def use_labels(case):
        store = FaissStore(case)
        _, ids = store.search(queries, 5)
        return [list(ids.ravel()), store.payload(ids[0])]

    yield of_folder("store with texts", place, "labels.json", use_labels, checked=True)


def _album(folder):
    root = folder / "photos"
    folder_of(root, 6)
    with Album(root, describer="sift", n_bits=64, n_jobs=1) as album:
        album.update()
    picture = (root / "0" / "000.jpg").read_bytes()

    def use(case):
        with Album(case, n_jobs=1) as album:
            hits = album.find(picture, 3)
            found = [album.store.count(), album.store.page(0, 5), album.store.problems(), album.like(hits[0].content)]
            return [hits, found, find_duplicates(album), thumbnail(album, hits[0].content)]

    def update(case):
        with Album(case, n_jobs=1) as album:
            done = album.update()
            return [done.photos, album.find(picture, 3)]

    index, model = ".projbank/album.sqlite", ".projbank/model-1.safetensors"
    yield of_folder("album", root, index, use, checked=False)
    yield of_folder("update of an album", root, index, update, checked=False)
    yield of_folder("album", root, model, use, checked=True)


def _journals(folder):
    """What a killed run of features or of codes has left; the next one goes on with it."""
    place = folder / "rows"
    place.mkdir(exist_ok=True)
    rows = np.arange(60, dtype=np.float32).reshape(20, 3)
    with RowFile(place, 3) as file:
        for i, row in enumerate(rows):
            file.append(row if i % 5 else None, "damaged" if i % 5 == 0 else "", file=f"{i}.png", size=i)

    def use_rows(case):
        with RowFile(case, 3, holds=lambda line: str(line.get("file")).endswith(".png")) as file:
            n_done = file.n_done
            for row in rows[n_done:]:
                file.append(row)
            file.finish()
            return [np.load(case / "rows.npy").shape[1], n_done <= 20]

    yield of_folder("rows of a killed run", place, "journal.jsonl", use_rows, checked=False)
    place = folder / "killed codes"
    place.mkdir(exist_ok=True)
    stamps = [[f"{i}.png", i, 7] for i in range(20)]
    with RowFile(place, 4, "|u1", "codes.npy") as file:
        for i, stamp in enumerate(stamps):
            file.append(np.full(4, i, np.uint8) if i % 5 else None, "" if i % 5 else "damaged", stamp=stamp)

    def use_codes(case):
        holds, left = compared(iter(stamps))
        with RowFile(case, 4, "|u1", "codes.npy", holds=holds) as file:
            n_done = file.n_done
            for stamp in left:
                file.append(np.full(4, stamp[1], np.uint8) if stamp[1] % 5 else None, stamp=stamp)
            said = [line["reason"] for line in file.lines() if "reason" in line]
            file.finish()
            return [np.load(case / "codes.npy").shape[1], n_done <= 20, len(said) <= 20]

    yield of_folder("codes of a killed run", place, "journal.jsonl", use_codes, checked=False)


def _texts(folder, codes):
    """Labels in a table, ids and payload in lines, exported codes, and a plain index of FAISS."""
    import faiss

    place = folder / "table"
    folder_of(place, 3)
    lines = [f"{i}/{i:03d}.jpg,{i},class {i}" for i in range(3)]
    (place / "labels.csv").write_text("\n".join(["file,label,class", *lines, ""]))
    yield of_folder("labels of pictures", place, "labels.csv", lambda case: [open_source(case).items], checked=False)
    ids, payload = "\n".join(f"photo {i}" for i in range(30)).encode(), b'{"a": [1, null, "x"]}\n' * 9
    yield Format("lines of ids", ids, read_ids, checked=False, suffix=".txt")
    yield Format("lines of payload", payload, read_payload, checked=False, suffix=".jsonl")
    for engine in ("elasticsearch", "milvus"):
        path, schema = export(engine, folder / "exported", codes, payload=codes.tolist())
        yield Format(f"exported for {engine}", path.read_bytes(), kind_of, checked=False)
        yield Format(f"schema for {engine}", schema.read_bytes(), kind_of, checked=False)
    index = faiss.IndexBinaryFlat(56)
    index.add(codes)
    faiss.write_index_binary(index, str(folder / "plain.faiss"))

    def use_faiss(path):
        found = open_codes(path)
        return [found.codes, found.ids]

    yield Format("index of FAISS", (folder / "plain.faiss").read_bytes(), use_faiss, checked=False)
