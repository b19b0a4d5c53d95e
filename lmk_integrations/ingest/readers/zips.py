"""Zip bombs: what an archive really unpacks to, before a parser unpacks it."""

from __future__ import annotations

import zipfile
import zlib

from lmk_integrations.errors import DocumentError

MAX_MEMBERS = 10_000
MAX_TOTAL_BYTES = 512 << 20
MAX_RATIO = 200
_RATIO_FROM_BYTES = 8 << 20  # small files of one letter are compressed better, and harmless
_BLOCK = 1 << 20


def check_zip(path: str) -> None:
    """Unpack it all once, keeping nothing. The sizes that a zip claims are not believed.

    Raises DocumentError: "zip_bomb", or "corrupt", or "encrypted".
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            if len(members) > MAX_MEMBERS:
                raise _bomb(f"{len(members):,} members, over {MAX_MEMBERS:,}")
            total = 0
            for member in members:
                total += _size(archive, member, total)
    except RuntimeError as error:  # zipfile's word for a member that needs a password
        raise DocumentError(
            f"it is encrypted ({error}); remove its password", "encrypted"
        ) from None
    # NotImplementedError: what zipfile raises for a compression method that it does not know.
    except (zipfile.BadZipFile, NotImplementedError, EOFError, ValueError) as error:
        if isinstance(error, DocumentError):
            raise
        raise DocumentError(f"it is not a readable Office file: {error}", "corrupt") from None
    except zlib.error as error:
        raise DocumentError(f"it is damaged: {error}", "corrupt") from None


def _size(archive: zipfile.ZipFile, member: zipfile.ZipInfo, before: int) -> int:
    size = 0
    with archive.open(member) as file:
        while block := file.read(_BLOCK):
            size += len(block)
            if before + size > MAX_TOTAL_BYTES:
                raise _bomb(f"over {MAX_TOTAL_BYTES >> 20} MiB when unpacked")
            if size > _RATIO_FROM_BYTES and size > MAX_RATIO * max(1, member.compress_size):
                raise _bomb(f"a member that unpacks to over {MAX_RATIO} times its size")
    return size


def _bomb(what: str) -> DocumentError:
    return DocumentError(f"it has {what}; it is not read", "zip_bomb")
