"""Photos: describe and code a folder, find what is like a picture, list what is there twice, draw both.

    pip install ".[photos]"
    python examples/photos.py ~/Photos --like beach.jpg --picture found.png

Photos are never changed; codes stand in the folder's `.projbank`. Without --like the first photo asks.
"""

import argparse
from pathlib import Path

from projbank import Album
from projbank.album.duplicates import find_duplicates
from projbank.album.thumbs import write_sheet


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--like", type=Path, help="a picture, of the album or not")
    parser.add_argument("--picture", type=Path, default=Path("found.png"), help="where to draw what was found")
    parser.add_argument("-k", type=int, default=12)
    args = parser.parse_args(words)

    with Album(args.folder) as album:
        album.update()
        asked = args.like or sorted(path for path in args.folder.rglob("*.jpg") if ".projbank" not in path.parts)[0]
        hits = album.find(asked, k=args.k)
        print(f"like {asked}:\n{'score':>7}  photo")
        for hit in hits:
            print(f"{hit.score:7.3f}  {hit.path}")
        write_sheet(args.picture, album, hits)

        groups = find_duplicates(album)
        print(f"\n{len(groups)} groups of photos that are there more than once or nearly so; * is the one best kept")
        for group in groups:
            print(f"{group.kind}: " + ", ".join(path + " *" * (path == group.best) for path in group.paths))
    print(f"{args.picture}: what was found")


if __name__ == "__main__":
    main()
