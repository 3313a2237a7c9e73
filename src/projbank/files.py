"""Outputs: they appear whole or not at all, replace nothing by mistake, and are locked while they are written."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from projbank.kinds import kind_of

try:
    import fcntl
except ImportError:  # Windows: two writers are not told apart, what a killed process left is not found
    fcntl = None  # type: ignore[assignment]

_HERE, _EXCHANGE = -100, 2
"""Linux: the current folder, and that two names are exchanged."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_open_outputs: dict[Path, Path] = {}
"""Target of each temporary file that is being written."""


@contextlib.contextmanager
def atomic_path(
    path: str | os.PathLike[str],
    *,
    kind: str | None = None,
    inputs: Iterable[str | os.PathLike[str] | None] = (),
    size: int = 0,
    force: bool = False,
) -> Iterator[Path]:
    """Give a temporary path in the target's folder; rename it to `path` on success, remove it on any exception.

    A link is written through. What killed processes left of earlier tries at the same file is removed first.

    Parameters
    ----------
    path : the file to write
    kind : what it will be (a word of `projbank.kinds`); an existing file of another kind is not replaced
    inputs : files that are read for it, none of which it may be, under whatever name
    size : bytes that are known to be needed; they are reserved at once
    force : replace a file of another kind

    Raises
    ------
    OSError
        At once, before any work is done, where the output can't be written: no folder, no right, no room, a file of
        another kind (FileExistsError).
    ValueError
        Where the output is one of the inputs.
    """
    target = Path(path)
    if target in _open_outputs:  # part of a larger output that is being written
        yield target
        return
    check_output(target, kind=kind, inputs=inputs, force=force)
    target = Path(os.path.realpath(target))
    temporary, handle = _create(target)
    _open_outputs[temporary] = target
    try:
        reserve(temporary, size)
        yield temporary
        if target.exists():
            shutil.copymode(target, temporary)
        _flush(temporary)
        os.replace(temporary, target)
        _flush_folder(target.parent)
    except OSError as error:
        if error.errno not in _FULL or isinstance(error, DiskFullError):
            raise
        raise DiskFullError(target, _size(temporary)) from error
    finally:
        _open_outputs.pop(temporary, None)
        temporary.unlink(missing_ok=True)
        os.close(handle)


class DiskFullError(OSError):
    """There is no room for a file; says how much it needs and how much is free."""

    def __init__(self, target: Path, needed: int, reason: str = "no room on the disk") -> None:
        free = shutil.disk_usage(target.parent).free
        super().__init__(f"cannot write {target}: {reason}: {needed:,} bytes are needed, {free:,} are free.")
        self.errno, self.needed, self.reason = errno.ENOSPC, needed, reason


def check_output(
    path: str | os.PathLike[str],
    *,
    kind: str | None = None,
    inputs: Iterable[str | os.PathLike[str] | None] = (),
    force: bool = False,
) -> None:
    """Raise where `atomic_path` would refuse to write a file; for outputs that are written in another way."""
    target = Path(path)
    _check_name(target)
    for source in inputs:
        if source is not None and _is_same(target, Path(source)):
            raise ValueError(
                f"cannot write {target}: it is the input {source}, which would be lost; name another output."
            )
    if target.is_dir():
        raise IsADirectoryError(f"cannot write {target}: it is a directory")
    real = Path(os.path.realpath(target))
    if not real.parent.is_dir():
        raise FileNotFoundError(
            f"cannot write {target}: there is no folder {(real if target.is_symlink() else target).parent}"
        )
    if not real.exists():
        return
    if not real.is_file():
        raise OSError(f"cannot write {target}: it is a pipe or a device, not a file on disk")
    if kind is None or force:
        return
    found = kind_of(real)
    if found not in ("", kind):
        raise FileExistsError(
            f"cannot write {target}: a file of another kind ({found}, not {kind}) is there and would be lost; name "
            "another output, remove the file, or give --force."
        )


def reserve(temporary: Path, size: int) -> None:
    """Make a file `size` bytes long with room on the disk for all of them; DiskFullError where there is none.

    A file that is then filled through memory can't run out of room, which would kill the process.
    """
    if size <= 0:
        return
    target = _open_outputs.get(temporary, temporary)
    free = shutil.disk_usage(temporary.parent).free
    if size > free + _size(temporary):
        raise DiskFullError(target, size)
    with open(temporary, "r+b") as file:
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size)
        except OSError as error:
            if error.errno in _FULL:
                reason = "larger than a file may be" if error.errno == errno.EFBIG else "no room on the disk"
                raise DiskFullError(target, size, reason) from error
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
                raise


def replace_folder(temporary: Path, target: Path) -> None:
    """Put a folder in the place of another, which is removed; where the system can swap names, in one step."""
    if target.exists():
        swap = getattr(ctypes.CDLL(None), "renameat2", None) if os.name == "posix" else None
        if swap is not None and not swap(_HERE, os.fsencode(temporary), _HERE, os.fsencode(target), _EXCHANGE):
            shutil.rmtree(temporary)
            return
        shutil.rmtree(target)
    os.replace(temporary, target)


def try_lock(handle: int) -> bool | None:
    """Lock an open file or folder for this process; False where another holds it, None where there are no locks.

    The lock ends with the process, however that ends.
    """
    if fcntl is None:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # some network file systems
        return None
    return True


@contextlib.contextmanager
def locked(path: Path, busy: str) -> Iterator[None]:
    """Hold the lock on a file, which is made if it is missing; BlockingIOError with the text `busy` if it is taken."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o666)
    try:
        if try_lock(handle) is False:
            raise BlockingIOError(busy)
        yield
    finally:
        os.close(handle)


def _check_name(target: Path) -> None:
    if any(ord(letter) < 32 or ord(letter) == 127 for letter in str(target)):
        raise ValueError(f"cannot write {str(target)!r}: its name has control characters")


def _is_same(one: Path, other: Path) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:  # one of them does not exist
        return os.path.realpath(one) == os.path.realpath(other)


def _create(target: Path) -> tuple[Path, int]:
    """Create an empty file beside the target, locked as long as this process lives, and remove what others left."""
    remove_litter(target)
    while True:
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
        try:
            handle = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o666)
        except FileExistsError:
            continue
        except OSError as error:
            raise type(error)(f"cannot write {target}: {error.strerror or error}") from error
        if try_lock(handle) is not False and _is_at(handle, temporary):
            return temporary, handle
        os.close(handle)  # another process took it for litter before it was locked


def remove_litter(target: Path) -> None:
    """Remove temporary files of an output that no living process holds; writing it does so, too."""
    pattern = re.compile(rf"\.{re.escape(target.name)}\.[0-9a-f]{{8}}\.part")
    with contextlib.suppress(OSError):
        for entry in os.scandir(target.parent):
            if not pattern.fullmatch(entry.name) or not entry.is_file(follow_symlinks=False):
                continue
            with contextlib.suppress(OSError):
                handle = os.open(entry.path, os.O_RDWR)
                if try_lock(handle) is True and _is_at(handle, Path(entry.path)):
                    os.unlink(entry.path)
                os.close(handle)


def _is_at(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _flush(path: Path) -> None:
    with open(path, "rb+") as file:
        os.fsync(file.fileno())


def _flush_folder(folder: Path) -> None:
    """Write the folder's own entry to the disk, where the system can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
