"""A folder by descriptor: names are looked up in the folder that was opened, even if its path leads
elsewhere by then, and no link is followed.

Kind, owner, mode and size are those of the open file, so nobody can put another file in its place
between the check and the use. Errors are the system's.
"""

from __future__ import annotations

import contextlib
import os
import stat
from errno import EBADF, EFBIG, ELOOP, EMLINK, ENOTDIR, ENOTSUP, EOPNOTSUPP, EPERM, EXDEV
from typing import IO

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
#: Of a folder on the way we may have the right to pass through, and no other.
_PASSING = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
#: A pipe in place of a file must not make us wait; a terminal must not become ours.
_FILE = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
_NO_LINKS = (EPERM, ENOTSUP, EOPNOTSUPP, EMLINK, EXDEV)


def read_whole(stream: IO[bytes], most: int) -> bytes:
    """What an open file holds; an error if that is more than so many bytes. Reads no more than the
    size that the system states, because a read allocates all that it is asked for."""
    size = os.fstat(stream.fileno()).st_size
    if size > most:
        raise OSError(EFBIG, f"the file has {size:,} bytes; no file of ours has more than {most:,}")
    return stream.read(size)


class Directory:
    """An open folder. ``path`` is for messages: nothing is looked up by it."""

    def __init__(self, file: int, path: str) -> None:
        self.file: int | None = file
        self.path = path
        facts = os.fstat(file)
        self._identity = (facts.st_dev, facts.st_ino)

    @classmethod
    def at(cls, path: str) -> Directory:
        """The folder at a path of the user's. Links in that path are followed here, once."""
        return cls(os.open(path, _FOLDER), path)

    @classmethod
    def root(cls) -> Directory:
        """The folder from which a path is walked step by step."""
        return cls(os.open(os.sep, _PASSING), os.sep)

    def close(self) -> None:
        file, self.file = self.file, None
        if file is not None:
            os.close(file)

    def __enter__(self) -> Directory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        with contextlib.suppress(OSError):
            self.close()

    @property
    def _file(self) -> int:
        if self.file is None:
            raise OSError(EBADF, "the folder is closed", self.path)
        return self.file

    def place(self, name: str) -> str:
        """The path of a name, for messages."""
        return os.path.join(self.path, name)

    def facts(self) -> os.stat_result:
        """What the system says of the folder; an error if the descriptor is no longer ours, which
        happens when a program closes all of its files."""
        found = os.fstat(self._file)
        if (found.st_dev, found.st_ino) != self._identity:
            self.file = None
            raise OSError(EBADF, "the descriptor of the folder was closed", self.path)
        return found

    # -- folders in it ------------------------------------------------------------------------
    def folder(self, name: str, passing: bool = False) -> Directory:
        """A folder in this one. ``passing``: only to open what is in it."""
        flags = _PASSING if passing else _FOLDER | os.O_NOFOLLOW
        try:
            return Directory(os.open(name, flags, dir_fd=self._file), self.place(name))
        except OSError as error:
            if error.errno in (ELOOP, ENOTDIR, EMLINK):
                raise self._refused(name, "a folder") from error
            raise

    def make_folder(self, name: str, mode: int) -> None:
        """Make a folder, unless it is there."""
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, mode, dir_fd=self._file)

    # -- files in it --------------------------------------------------------------------------
    def open(self, name: str, flags: int = os.O_RDONLY, mode: int = 0o600) -> int:
        """A plain file in this folder. Flags that would empty it are refused."""
        assert not flags & os.O_TRUNC, "files of ours are never emptied"
        try:
            file = os.open(name, flags | _FILE, mode, dir_fd=self._file)
        except OSError as error:
            if error.errno in (ELOOP, EMLINK):
                raise self._refused(name, "a plain file") from error
            raise
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise self._refused(name, "a plain file")
            return file
        except BaseException:
            os.close(file)
            raise

    def create(self, name: str, mode: int) -> int:
        """A new file; an error if anything has the name."""
        return self.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)

    def read(self, name: str, most: int) -> bytes:
        """The content of a file; an error if it has more than so many bytes."""
        file = self.open(name)
        with open(file, "rb") as stream:
            return read_whole(stream, most)

    def names(self) -> list[str]:
        """The names in the folder. It is opened once more to list it, because threads and forks
        share the place of reading in an open one."""
        self.facts()
        file = os.open(".", _FOLDER, dir_fd=self._file)
        try:
            return os.listdir(file)
        finally:
            os.close(file)

    def stat(self, name: str) -> os.stat_result:
        """What the system says of a name, which may be a link."""
        return os.stat(name, dir_fd=self._file, follow_symlinks=False)

    def rename(self, old: str, new: str) -> None:
        """Give a file a name, in place of the file that has it."""
        os.replace(old, new, src_dir_fd=self._file, dst_dir_fd=self._file)

    def name_first(self, old: str, new: str) -> None:
        """Give a file a name that no file has; ``FileExistsError`` if one has it. File systems
        without hard links cannot tell: there the last file gets it."""
        try:
            os.link(old, new, src_dir_fd=self._file, dst_dir_fd=self._file, follow_symlinks=False)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            self.rename(old, new)

    def unlink(self, name: str) -> None:
        """Remove a name."""
        os.unlink(name, dir_fd=self._file)

    def remove(self, name: str) -> None:
        """Remove a name; no error if it is gone, or if the system refuses."""
        with contextlib.suppress(OSError):
            self.unlink(name)

    def sync(self) -> None:
        """From here on the names in the folder survive a loss of power."""
        os.fsync(self._file)

    def _refused(self, name: str, kind: str) -> OSError:
        """The error for a name that exists and is not of the wanted kind."""
        return OSError(ELOOP, f"it is not {kind}, and links are not followed", self.place(name))
