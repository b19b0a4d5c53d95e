"""Bytes of unknown encoding become the text that was meant, or an error that says what to do."""

from __future__ import annotations

import codecs
import random
import zlib

import pytest

from lmk_integrations import DocumentError
from lmk_integrations.text.decode import Encoding, decode, decode_chunks, find_encoding

GERMAN = "Das ist schön und größer als übliche Straßen.\nÜber den Wolken muß die Freiheit sein.\n"
FRENCH = "Le café naïve est situé à côté de l’école où l’été “des crêpes” — 5 € seulement.\n"
ENGLISH = "He said “hello” – and it’s £5 only. The rest is plain English text that goes on.\n"
SPANISH = "El niño comió una manzana en la montaña. ¿Cómo está usted? ¡Qué día más bonito!\n"
POLISH = "Zażółć gęślą jaźń. Święta Bożego Narodzenia są już blisko, więc kupiłem prezenty.\n"
CZECH = "Příliš žluťoučký kůň úpěl ďábelské ódy. Děkuji vám za všechno, přátelé.\n"
RUSSIAN = "Привет, как дела? Это текст на русском языке, и он довольно длинный.\n"
GREEK = "Καλημέρα κόσμε, αυτό είναι ένα κείμενο στα ελληνικά.\n"
TURKISH = "Türkçe bir metin: çok güzel bir gün, ağaçlar yeşil, İstanbul’da ışıklar.\n"
JAPANESE = "日本語のテキストです。これは長い文章で、漢字と仮名が混ざっています。\n"
CHINESE = "这是一个中文文本，里面有很多汉字，用来测试编码检测。\n"
KOREAN = "안녕하세요. 이것은 한국어 텍스트입니다. 인코딩을 시험합니다.\n"
# Without a mark, Chinese and Japanese show only by the zeros of their line ends.
UNICODE_TEXTS = {
    "german": GERMAN,
    "english": ENGLISH,
    "russian": RUSSIAN,
    "chinese": CHINESE * 3,
    "japanese": JAPANESE * 3,
    "emoji": "emoji 😀 at the end 👩‍👧",
    "ascii": "plain words, and not a few of them",
}


@pytest.mark.parametrize(
    "name", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"]
)
@pytest.mark.parametrize("language", UNICODE_TEXTS)
def test_unicode_is_recognised(language: str, name: str) -> None:
    """With a mark or without one; the mark is no part of the text."""
    text = UNICODE_TEXTS[language]
    got, encoding = decode(text.encode(name))
    assert got == text
    assert not encoding.guessed


@pytest.mark.parametrize("mark", [codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE])
def test_big_endian_marks(mark: bytes) -> None:
    """The byte order is that of the mark."""
    name = "utf-16-be" if len(mark) == 2 else "utf-32-be"
    assert decode(mark + "Grüße".encode(name))[0] == "Grüße"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (GERMAN, "latin-1"),
        (GERMAN, "cp1252"),
        (FRENCH, "cp1252"),
        (ENGLISH, "cp1252"),
        (SPANISH, "latin-1"),
        (POLISH, "cp1250"),
        (POLISH, "iso8859_2"),
        (CZECH, "cp1250"),
        (CZECH, "iso8859_2"),
        (RUSSIAN, "cp1251"),
        (RUSSIAN, "koi8_r"),
        (GREEK, "cp1253"),
        (TURKISH, "cp1254"),
        (JAPANESE, "shift_jis"),
        (JAPANESE, "euc_jp"),
        (CHINESE, "gb18030"),
        (CHINESE * 10, "big5"),
        (KOREAN, "euc_kr"),
        ("café naïve", "latin-1"),
        ("Résumé of Müller", "latin-1"),
        ("one é", "cp1252"),
    ],
)
def test_legacy_encodings_are_recognised(text: str, name: str) -> None:
    """The text comes out as it was meant, and that it was guessed is recorded."""
    data = text.encode(name, "ignore")
    got, encoding = decode(data)
    assert got == data.decode(name)
    assert encoding.guessed
    assert 0.4 <= encoding.confidence < 1.0


def test_the_whole_file_is_looked_at() -> None:
    """An accent in the last line of 2 MB decides as much as one in the first."""
    text = "plain English text, line by line\n" * 60_000 + "déjà vu, voilà l’été à Orléans\n"
    got, encoding = decode(text.encode("cp1252"))
    assert got == text
    assert encoding.name == "cp1252"


def test_nothing_is_guessed_where_nothing_fits() -> None:
    """Many bytes that are no letters in any language: an error that names the remedy."""
    noise = bytes(range(0x80, 0x100)) * 4
    with pytest.raises(DocumentError, match="--encoding") as error:
        decode(b"some words " + noise)
    assert error.value.reason == "encoding"


def test_an_explicit_encoding_overrides() -> None:
    """Even where the bytes are valid UTF-8; what does not fit is an error with its place."""
    assert decode("é".encode(), encoding="cp1252")[0] == "Ã©"
    assert decode("\ufeffé".encode("utf-16"), encoding="utf-16")[0] == "é"
    with pytest.raises(DocumentError, match="not valid ascii at byte 3") as error:
        decode("abcé".encode(), encoding="ascii")
    assert error.value.reason == "encoding"


def test_what_a_page_declares_comes_after_utf8() -> None:
    """A page that is UTF-8 is read as that, whatever it says; else it is believed."""
    assert decode("Страница".encode(), declared="cp1252")[0] == "Страница"
    got, encoding = decode("Ст".encode("koi8_r"), declared="KOI8-R")
    assert (got, encoding.guessed) == ("Ст", False)
    assert decode("“x”".encode("cp1252"), declared="iso-8859-1")[0] == "“x”"
    assert decode(GERMAN.encode("cp1252"), declared="no such thing")[0] == GERMAN


@pytest.mark.parametrize(
    "data",
    [
        random.Random(1).randbytes(5000),
        zlib.compress(b"".join(str(i).encode() for i in range(9999))),
        b"\x7fELF\x02\x01\x01" + bytes(64),
        b"\x89PNG\r\n\x1a\n" + b"text that looks like one",
        b"%PDF-1.7 in a file that is called .txt",
        b"PK\x03\x04" + b"abc" * 20,
        bytes(1000),
        "plain\n".encode("utf-32-le") * 10,
    ],
    ids=["noise", "zlib", "elf", "png", "pdf", "zip", "zeros", "utf-32 without mark"],
)
def test_binary_data_is_refused(data: bytes) -> None:
    """It is not decoded to nonsense."""
    with pytest.raises(DocumentError) as error:
        decode(data)
    assert error.value.reason == "binary"


@pytest.mark.parametrize("text", ["a\0b", "a line\0\nand\0 another é\n", "ab" * 50 + "\0", ""])
def test_a_few_zeros_make_no_binary_file(text: str) -> None:
    """They are removed later, and counted; the text is kept."""
    assert decode(text.encode())[0] == text


def test_zeros_in_latin_text_do_not_make_it_utf16() -> None:
    """Read as UTF-16 it would be Chinese."""
    text = "Der schöne Fluß\0 ist größer, als wir\0 früher dachten; das glaubt ihr nicht!\n" * 4
    for data in (text.encode("cp1252"), text.encode("cp1252") + b"x"):
        assert decode(data)[0].startswith(text)


def test_surrogates_in_utf8_come_through() -> None:
    """They are for repairing; the file is not refused for them."""
    got, encoding = decode(b"pair \xed\xa0\xbd\xed\xb8\x80 lone \xed\xa0\x80!")
    assert got == "pair \ud83d\ude00 lone \ud800!"
    assert not encoding.guessed


@pytest.mark.parametrize("name", ["utf-8", "utf-16-le", "utf-32-be", "shift_jis", "gb18030"])
def test_characters_cut_by_chunks_are_whole(name: str) -> None:
    """A byte at a time gives the same text as all at once."""
    text = "\ufeff" * name.startswith("utf") + JAPANESE + ("😀" if "utf" in name else "")
    data = text.encode(name)
    chunks = [data[i : i + 1] for i in range(len(data))]
    pieces = list(decode_chunks(chunks, Encoding(name)))
    assert "".join(pieces) == text.removeprefix("\ufeff")
    assert all(pieces)


def test_a_file_that_ends_inside_a_character_is_not_utf8() -> None:
    """The place is named, counted over all chunks."""
    data = "aé".encode()[:-1]
    with pytest.raises(DocumentError, match="at byte 5"):
        list(decode_chunks([b"1234", data], Encoding("utf-8")))
    assert find_encoding(lambda: [b"1234", "é".encode()]) == Encoding("utf-8")
