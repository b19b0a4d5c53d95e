"""Bytes become the text that was written, or an error that says what to do."""

import codecs
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmk_integrations import DocumentError
from lmk_integrations.text.decode import Encoding, decode, decode_chunks, find_encoding

FRENCH = (
    "L'été dernier, nous avons visité la bibliothèque où Émile a étudié.\r\n"
    "Le café était très agréable, même à Noël; garçon, un thé naïf !\r\n"
)
SAMPLES = {
    "english": "It was a bright cold day in April, and the clocks were striking thirteen.\n",
    "russian": "Был яркий холодный апрельский день, и часы пробили тринадцать. Он вошёл в дом.\n",
    "greek": "Ήταν μια φωτεινή κρύα μέρα του Απρίλη και τα ρολόγια χτυπούσαν δεκατρείς.\n",
    "hebrew": "זה היה יום קר ובהיר באפריל, והשעונים צלצלו שלוש עשרה פעמים.\n",
    "chinese": "中文文本在这里。我们去学校学习，老师很高兴。今天天气很好，一起去公园。\n",
    "japanese": "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。\n",
    "korean": "안녕하세요. 한국어 문장입니다. 오늘은 날씨가 좋네요. 같이 산책할까요?\n",
    "hindi": "नमस्ते, आप कैसे हैं? आज मौसम बहुत अच्छा है।\n",
    "emoji": "fun 😀😀 text 👩‍👩‍👧\n",
}


@pytest.mark.parametrize("language", SAMPLES)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_a_mark_decides_and_is_removed(language, encoding):
    """UTF-32 before UTF-16, whose mark begins the same; no mark stays in the text."""
    text = SAMPLES[language]
    assert decode(text.encode(encoding))[0] == text


@pytest.mark.parametrize("order", ["le", "be"])
@pytest.mark.parametrize("width", ["16", "32"])
def test_marks_of_both_byte_orders(width, order):
    """A file says itself in which order its bytes are."""
    name = f"utf-{width}-{order}"
    mark = getattr(codecs, f"BOM_UTF{width}_{order.upper()}")
    text, found = decode(mark + FRENCH.encode(name))
    assert (text, found.name) == (FRENCH, name)


@pytest.mark.parametrize("language", SAMPLES)
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf16_without_a_mark_is_recognised(language, encoding):
    """By where its zeros lie, in every script; much of it would be valid UTF-8, full of NUL."""
    text = SAMPLES[language] * 5
    assert decode(text.encode(encoding)) == (text, Encoding(encoding, "surrogatepass"))


def test_line_ends_and_later_marks_stay():
    """Nothing but the mark at the beginning is removed."""
    text = "a\r\nb\rc\u2028\ufeffd"
    assert decode(text.encode())[0] == text


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("latin-1", FRENCH),
        (
            "latin-1",
            "Das ist schön und größer als übliche Straßen. Über den Wolken, muß er sagen.\n",
        ),
        ("latin-1", "El niño comió una manzana en la montaña. ¿Cómo está usted? ¡Qué día!\n"),
        ("latin-1", "Résumé of Müller"),
        ("cp1252", "He said “hello” – and it’s £5 only. The rest is plain English text.\n"),
        ("cp1252", "“Smart quotes” – and an em—dash; it’s cheap at 5 € in the café.\n"),
        ("cp1252", "naïve"),
        ("cp1252", "Où est le café ? Là-bas, près de l’église, où l’été s’achève déjà.\n"),
        ("cp1257", "Šiandien gražus oras, vaikai žaidžia kieme. Ačiū už viską, mielas drauge.\n"),
        ("cp1257", "Šodien ir skaista diena, bērni spēlējas pagalmā. Paldies par visu, draugs.\n"),
        ("cp1250", "Příliš žluťoučký kůň úpěl ďábelské ódy. Dnes je hezké počasí a děti.\n"),
        ("iso8859_2", "Příliš žluťoučký kůň úpěl ďábelské ódy. Děkuji vám za všechno.\n"),
        ("cp1250", "Zażółć gęślą jaźń. Święta są już blisko, więc kupiłem prezenty.\n"),
        ("iso8859_2", "Zażółć gęślą jaźń. Dzień dobry, miło cię widzieć w śliczny wieczór.\n"),
        ("cp1251", SAMPLES["russian"]),
        ("koi8_r", SAMPLES["russian"]),
        ("cp1253", SAMPLES["greek"]),
        ("cp1254", "İstanbul'da yaşıyorum, çok güzel bir şehir. Öğretmen ağaçların altında.\n"),
        ("cp1255", SAMPLES["hebrew"]),
        ("cp932", SAMPLES["japanese"]),
        ("euc_jp", SAMPLES["japanese"]),
        ("gb18030", SAMPLES["chinese"]),
        ("big5", "中文文本在這裡。我們去學校學習，老師很高興。今天天氣很好。\n"),
        ("cp949", SAMPLES["korean"]),
    ],
)
def test_a_legacy_encoding_is_guessed_with_its_confidence(encoding, text):
    """The text is right, and it shows that it was guessed."""
    for written in (text, "Plain words before it, as in a log.\n" * 400 + text):
        found_text, found = decode(written.encode(encoding))
        assert found_text == written
        assert found.guessed
        assert 0.4 <= found.confidence < 1


def test_what_decides_may_come_late():
    """The whole file is looked at: its first megabyte is ASCII."""
    text = "nothing to see here, move along\n" * 40_000 + FRENCH
    assert decode(text.encode("cp1252"))[0] == text
    assert decode(text.encode("utf-8"))[1].name == "utf-8"


def test_doubtful_bytes_are_an_error_that_says_what_to_pass():
    """Too short to tell Russian from anything else: not guessed, never replaced."""
    with pytest.raises(DocumentError, match="--encoding") as caught:
        decode("Привет".encode("koi8_r"))
    assert caught.value.reason == "encoding"


def test_noise_is_not_guessed():
    """Words among bytes that are letters in no language."""
    with pytest.raises(DocumentError, match="--encoding") as caught:
        decode(b"some words " + bytes(range(0x80, 0x100)) * 4)
    assert caught.value.reason == "encoding"


def test_an_explicit_encoding_overrides_everything():
    """The user knows better than the mark, and than the detector."""
    assert decode("Привет".encode("koi8_r"), encoding="koi8_r")[0] == "Привет"
    assert decode(codecs.BOM_UTF8 + b"a", encoding="latin-1")[0] == "ï»¿a"
    assert decode("\ufeffé".encode(), encoding="utf-8")[0] == "é"
    with pytest.raises(DocumentError, match=r"not valid ascii at byte 3.*--encoding"):
        decode(b"caf\xe9", encoding="ascii")


def test_a_declared_encoding_comes_after_utf8():
    """What a page says of itself is often wrong when it is UTF-8, seldom otherwise."""
    japanese = SAMPLES["japanese"]
    assert decode("猫".encode("cp932"), declared="shift_jis")[0] == "猫"
    assert decode(japanese.encode(), declared="shift_jis")[0] == japanese
    assert decode("5 €".encode("cp1252"), declared="ISO-8859-1")[0] == "5 €"
    assert decode(FRENCH.encode("cp1252"), declared="no-such-thing")[0] == FRENCH


@pytest.mark.parametrize(
    "data",
    [
        random.Random(0).randbytes(5_000),
        bytes(1_000),
        b"\x7fELF\x02\x01",
        b"\x89PNG\r\n",
        b"%PDF-1.7 text",
        b"abc\x01\x02\x03\x04" * 50,
        bytes(range(256)) * 8,
    ],
    ids=["random", "zeros", "elf", "png", "pdf", "controls", "all"],
)
def test_binary_content_is_not_text(data):
    """It is said so, instead of guessing an encoding in which anything is a character."""
    with pytest.raises(DocumentError, match="binary") as caught:
        decode(data)
    assert caught.value.reason == "binary"


@pytest.mark.parametrize("encoding", ["utf-8", "cp1252"])
def test_a_few_zeros_do_not_make_it_binary_or_utf16(encoding):
    """They are removed later, and counted."""
    text = FRENCH.replace("\r", "\0")
    assert decode(text.encode(encoding))[0] == text


def test_surrogates_written_as_utf8_come_through_for_repair():
    """As some databases and Java write characters beyond the first 65,536."""
    data = "a\ud83d\ude00b".encode("utf-8", "surrogatepass")
    assert decode(data)[0] == "a\ud83d\ude00b"
    assert decode(codecs.BOM_UTF16_LE + b"\x3d\xd8x\0")[0] == "\ud83dx"


@given(
    st.text(),
    st.integers(1, 7),
    st.sampled_from(["utf-8", "utf-16-le", "utf-32-be", "gb18030", "utf-8-sig"]),
)
def test_chunks_give_the_same_text(text, size, encoding):
    """Characters that a chunk's end cuts are whole in the text."""
    data = text.encode(encoding)
    chunks = [data[i : i + size] for i in range(0, len(data), size)]
    expected = text.removeprefix("\ufeff")
    assert "".join(decode_chunks(chunks, Encoding(encoding))) == expected


def test_the_byte_named_is_that_of_the_file():
    """In whatever chunk it lies, and wherever its character began."""
    chunks = [b"abc", b"d\xe2\x82", b"x"]
    with pytest.raises(DocumentError, match="at byte 4;"):
        list(decode_chunks(chunks, Encoding("utf-8")))


def test_evidence_does_not_depend_on_chunks():
    """A file in blocks is judged as one in memory is."""
    for text, encoding in ((FRENCH, "cp1252"), (SAMPLES["chinese"], "utf-16-be")):
        data = (text * 20).encode(encoding)
        chunks = [data[i : i + 101] for i in range(0, len(data), 101)]
        assert find_encoding(lambda c=chunks: c) == find_encoding(lambda d=data: (d,))
