"""Albums of photos: time and bytes, what `find` finds, duplicates, 100,000 photos, and 50 kills.

    python -m benchmarks.album --data FOLDER --work FOLDER [--only times,quality,duplicates,large,kills]

FOLDER of --data holds imagenette.zip and caltech101.zip with `labels.csv` inside. Perceptual hashes are those of the
package ImageHash, which has to be installed; results of parts that are not run are kept.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from benchmarks.common import RESULTS
from projbank import Album
from projbank.album import describe
from projbank.album.duplicates import NEAR, find_duplicates
from projbank.album.store import Content, File
from projbank.evaluate.results import stamp
from projbank.features.tasks import State
from projbank.features.workers import Processes
from projbank.threads import available_cores

DESCRIBERS = ("sift", "net")
LEFT_OUT = ("BACKGROUND_Google", "Faces_easy")
N_PHOTOS, N_JUDGED, N_QUERIES, K = 3000, 2000, 200, 10
N_CHANGED, CHANGES = 60, ("crop", "scale", "jpeg30", "bright", "mirror", "watermark")
N_DISTRACTORS = 600
HASH_THRESHOLD = 10
"""Bits of 64 that perceptual hashes of duplicates may differ in; imagededup's default."""
HASHES = ("phash", "dhash", "whash", "average_hash")


def photos_of(data: Path, name: str, n: int, work: Path) -> tuple[Path, dict[str, str]]:
    """Unpack a sample of a set; the folder, and the class of each file."""
    folder, labels = work / f"{name}-{n}", {}
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(data / f"{name}.zip") as archive:
        rows = list(csv.DictReader(io.TextIOWrapper(archive.open("labels.csv"), "utf-8")))
        rows = [row for row in rows if row["class"] not in LEFT_OUT]
        for place in np.sort(np.random.default_rng(0).choice(len(rows), min(n, len(rows)), replace=False)):
            file = f"{place:05d}.jpg"
            labels[file] = rows[place]["class"]
            if not (folder / file).exists():
                (folder / file).write_bytes(archive.read(rows[place]["file"]))
    return folder, labels


def spent(work: Callable[[], Any]) -> dict[str, float]:
    """Seconds on the clock, and of processor time, processes included."""

    def processor() -> float:
        uses = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return sum(use.ru_utime + use.ru_stime for use in uses)

    clock, busy = time.perf_counter(), processor()
    work()
    return {"seconds": round(time.perf_counter() - clock, 2), "processor seconds": round(processor() - busy, 2)}


def fresh(folder: Path) -> Path:
    shutil.rmtree(folder / ".projbank", ignore_errors=True)
    return folder


def measure_times(data: Path, work: Path) -> dict[str, Any]:
    folder, _ = photos_of(data, "imagenette", N_PHOTOS, work)
    more, _ = photos_of(data, "imagenette", N_PHOTOS + 400, work)
    new = [path for path in sorted(more.glob("*.jpg")) if not (folder / path.name).exists()][:N_CHANGED]
    found: dict[str, Any] = {"cores": available_cores()}
    for describer in DESCRIBERS:
        album = Album(fresh(folder), describer=describer)
        made = spent(album.update)
        size = sum(path.stat().st_size for path in album.folder.rglob("*") if path.is_file())
        again = spent(album.update)
        for path in new:
            shutil.copy(path, folder)
        update = spent(album.update)
        for path in new:
            (folder / path.name).unlink()
        found[describer] = {"made": made, "bytes": size, "nothing new": again, "100 new": update}
        print(describer, found[describer], flush=True)
        album.close()
    shutil.rmtree(more)
    return found


def precision(ranked: list[list[str]], queries: list[str], labels: dict[str, str]) -> float:
    shares = [
        np.mean([labels[path] == labels[query] for path in row[:K]]) for row, query in zip(ranked, queries, strict=True)
    ]
    return round(float(np.mean(shares)), 4)


def by_product(rows: NDArray[np.float32], files: list[str], queries: list[str]) -> list[list[str]]:
    """Files by falling product with each query, without the query itself."""
    places = [files.index(query) for query in queries]
    closeness = rows[places] @ rows.T
    closeness[np.arange(len(places)), places] = -np.inf
    return [[files[i] for i in np.argsort(-row, kind="stable")[:K]] for row in closeness]


def hash_bits(folder: Path, files: list[str], kind: str) -> NDArray[np.float32]:
    """Perceptual hashes as rows of +-1."""
    import imagehash
    from PIL import Image

    hashes = [getattr(imagehash, kind)(Image.open(folder / file)).hash.ravel() for file in files]
    return np.where(np.array(hashes), 1, -1).astype(np.float32)


def measure_quality(data: Path, work: Path) -> dict[str, Any]:
    found: dict[str, Any] = {"photos": N_JUDGED, "queries": N_QUERIES, "measure": f"P@{K}, the query itself left out"}
    for name in ("imagenette", "caltech101"):
        folder, labels = photos_of(data, name, N_JUDGED, work)
        files = sorted(labels)
        queries = [files[i] for i in np.random.default_rng(1).choice(len(files), N_QUERIES, replace=False)]
        rows: dict[str, float] = {}
        for describer in DESCRIBERS:
            with Album(fresh(folder), describer=describer) as album:
                album.update()
                hits = [album.find(folder / query, K, include_self=False) for query in queries]
                rows[f"find, {describer}"] = precision([[hit.path for hit in row] for row in hits], queries, labels)
                task = State(describe.photos_in(folder), album.coder().describer)
            with Processes(task, available_cores()) as processes:
                results = list(processes.run(describe.vector, ((file,) for file in files)))
            vectors = np.stack([result.array for result in results if result.array is not None])
            rows[f"cosine of floats, {describer}"] = precision(by_product(vectors, files, queries), queries, labels)
            print(name, rows, flush=True)
        for kind in HASHES:
            ranked = by_product(hash_bits(folder, files, kind), files, queries)
            rows[f"{kind}, ImageHash"] = precision(ranked, queries, labels)
        found[name] = rows
        print(name, rows, flush=True)
    return found


def change(image: NDArray[np.uint8], kind: str, rng: np.random.Generator) -> NDArray[np.uint8]:
    """A near-duplicate of an image."""
    height, width = image.shape[:2]
    if kind == "crop":
        share = rng.uniform(0.8, 0.9)
        top, left = (int(rng.uniform(0, 1 - share) * side) for side in (height, width))
        return image[top : top + int(share * height), left : left + int(share * width)]
    if kind == "scale":
        return np.asarray(cv2.resize(image, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA), np.uint8)
    if kind == "bright":
        return np.clip(image * 1.3 + 20, 0, 255).astype(np.uint8)
    if kind == "mirror":
        return image[:, ::-1]
    marked = image.copy()
    if kind == "watermark":
        cv2.putText(marked, "(c) photo", (width // 8, height // 2), 0, 0.8, (255, 255, 255), 2)
    return marked


def changed_photos(data: Path, work: Path) -> Path:
    """A folder of originals, their near-duplicates, and other photos."""
    source, _ = photos_of(data, "caltech101", N_CHANGED + N_DISTRACTORS, work)
    folder, rng = work / "changed", np.random.default_rng(0)
    folder.mkdir(exist_ok=True)
    for i, path in enumerate(sorted(source.glob("*.jpg"), key=lambda path: path.name[::-1])):
        shutil.copy(path, folder / f"{i:05d}-original.jpg")
        for kind in CHANGES if i < N_CHANGED else ():
            image = np.asarray(cv2.imread(str(path)), np.uint8)
            quality = 30 if kind == "jpeg30" else 90
            target = str(folder / f"{i:05d}-{kind}.jpg")
            cv2.imwrite(target, change(image, kind, rng), [cv2.IMWRITE_JPEG_QUALITY, quality])
    return folder


def judged(pairs: set[tuple[str, str]]) -> dict[str, Any]:
    """Precision and recall of pairs of files; recall of the original with each kind of change."""
    right = sum(one[:5] == other[:5] for one, other in pairs)
    per_group = len(CHANGES) * (len(CHANGES) + 1) // 2
    kinds = {
        kind: round(
            np.mean([_pair(f"{i:05d}-original.jpg", f"{i:05d}-{kind}.jpg") in pairs for i in range(N_CHANGED)]), 3
        )
        for kind in CHANGES
    }
    return {
        "precision": round(right / max(1, len(pairs)), 4),
        "recall": round(right / (N_CHANGED * per_group), 4),
        "recall of the original's pairs": kinds,
    }


def _pair(one: str, other: str) -> tuple[str, str]:
    return (one, other) if one < other else (other, one)


def _extend(groups: list[Any], album: Album) -> None:
    groups += find_duplicates(album, similar_from=2)


def measure_duplicates(data: Path, work: Path) -> dict[str, Any]:
    folder = changed_photos(data, work)
    files = sorted(path.name for path in folder.glob("*.jpg"))
    found: dict[str, Any] = {"photos": len(files), "changed": N_CHANGED, "imagededup's threshold": HASH_THRESHOLD}
    for describer in DESCRIBERS:
        with Album(fresh(folder), describer=describer) as album:
            album.update()
            groups: list[Any] = []
            took = spent(partial(_extend, groups, album))
        near = [sorted(group.paths) for group in groups if group.kind == NEAR]
        pairs = {(one, other) for group in near for i, one in enumerate(group) for other in group[i + 1 :]}
        found[f"duplicates, {describer}"] = judged(pairs) | took
        print(describer, found[f"duplicates, {describer}"], flush=True)
    for kind in HASHES:
        bits = hash_bits(folder, files, kind)
        ones, others = np.nonzero(np.triu(bits @ bits.T >= bits.shape[1] - 2 * HASH_THRESHOLD, 1))
        found[f"{kind}, ImageHash"] = judged({(files[i], files[j]) for i, j in zip(ones, others, strict=True)})
        print(kind, found[f"{kind}, ImageHash"], flush=True)
    return found


def measure_large(data: Path, work: Path, n: int = 100_000) -> dict[str, Any]:
    """`find` in an album whose codes are repeated; files are links in name only, so that none has to be there."""
    folder, _ = photos_of(data, "imagenette", N_PHOTOS, work)
    target = work / "large"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(folder, target)
    found: dict[str, Any] = {"photos": n}
    with Album(target) as album:
        album.update()
        model, codes = album.store.model(), album.codes()
        if model is None:
            raise RuntimeError("the album has learnt nothing.")
        rng, rows = np.random.default_rng(0), []
        paths = [album.store.files_of(number)[0] for number in codes.ids.tolist()]
        for i in range(n - len(codes.ids)):
            file, code = paths[i % len(paths)], codes.index.codes[i % len(paths)]
            name = f"copy-{i}.jpg"
            os.link(target / file.path, target / name)
            content = Content(rng.bytes(describe.HASH_BYTES), file.size, 160, 160, look=bytes(32))
            rows.append((File(name, *file[1:]), content, code.tobytes()))
        album.store.add(model.version, rows)
    query = sorted(target.glob("0*.jpg"))[7]
    album = Album(target)
    found["first find, codes and net read"] = spent(lambda: album.find(query, 12))
    times = [spent(lambda: album.find(query, 12))["seconds"] for _ in range(15)]
    found["find, seconds, best and median"] = [min(times), float(np.median(times))]
    album.close()
    shutil.rmtree(target)
    print(found, flush=True)
    return found


def state(folder: Path) -> dict[str, Any]:
    """Code of every file, and the files that are not in the album."""
    with Album(folder) as album:
        codes = album.codes()
        pairs = zip(codes.ids.tolist(), codes.index.codes, strict=True)
        return {file.path: row.tobytes() for number, row in pairs for file in album.store.files_of(number)}


def measure_kills(data: Path, work: Path, n: int = 50) -> dict[str, Any]:
    """Updates of 100 photos (60 new ones, 10 moved, 10 deleted, 10 changed), killed at random moments."""
    source, _ = photos_of(data, "imagenette", N_PHOTOS, work)
    photos = sorted(source.glob("*.jpg"))
    start = work / "kills-start"
    shutil.rmtree(start, ignore_errors=True)
    start.mkdir()
    for path in photos[:100]:
        shutil.copy2(path, start)
    Album(start, describer="sift").update()
    for i, path in enumerate(photos[:30]):
        if i < 10:
            (start / path.name).rename(start / f"moved-{path.name}")
        elif i < 20:
            (start / path.name).unlink()
        else:
            shutil.copy2(photos[-1 - i], start / path.name)
    for path in photos[100:160]:
        shutil.copy2(path, start)
    whole, killed = work / "kills-whole", work / "kills-killed"
    for folder in (whole, killed):
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(start, folder)
    command = [sys.executable, "-m", "projbank", "album", "-q", "-j", "1"]
    began = time.perf_counter()
    subprocess.run([*command, str(whole)], check=True, stdout=subprocess.DEVNULL)
    lasted = time.perf_counter() - began
    rng, kills, ended, wrong = np.random.default_rng(0), 0, 0, 0
    expected = state(whole)
    while kills < n:
        run = subprocess.Popen([*command, str(killed)], stdout=subprocess.DEVNULL, start_new_session=True)
        try:
            run.wait(rng.uniform(0.1, 1.0) * lasted)
            ended += 1
            wrong += state(killed) != expected
            shutil.rmtree(killed)
            shutil.copytree(start, killed)
        except subprocess.TimeoutExpired:
            os.killpg(run.pid, signal.SIGKILL)
            run.wait()
            kills += 1
    subprocess.run([*command, str(killed)], check=True, stdout=subprocess.DEVNULL)
    wrong += state(killed) != expected
    found = {"kills": kills, "updates that came to their end": ended + 1, "of these not the same": wrong}
    print(found, flush=True)
    return found


PARTS = {
    "times": measure_times,
    "quality": measure_quality,
    "duplicates": measure_duplicates,
    "large": measure_large,
    "kills": measure_kills,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--output", type=Path, default=RESULTS / "album.json")
    given = parser.parse_args()
    for name in given.only.split(","):
        part = PARTS[name](given.data, given.work)
        before = json.loads(given.output.read_text()) if given.output.exists() else {}
        given.output.write_text(json.dumps(before | stamp() | {name: part}, indent=1) + "\n")


if __name__ == "__main__":
    main()
