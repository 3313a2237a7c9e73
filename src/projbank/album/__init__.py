"""Photos, end to end: a folder that can be searched by a picture."""

from projbank.album.album import Album, Hit
from projbank.album.store import AlbumError

__all__ = ["Album", "AlbumError", "Hit"]
