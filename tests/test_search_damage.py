"""Damage of many kinds is flagged by what it is; clean text that looks a little like it is not."""

# ruff: noqa: RUF001 (texts in many scripts)

from __future__ import annotations

import base64
import random
import unicodedata

import numpy as np
import pyarrow as pa
import pytest
from helpers_search import SCRIPTS, WORDS, chunk, prose
from hypothesis import given, settings
from hypothesis import strategies as st

from shardward.quarantine.search.detectors import detect_documents
from shardward.quarantine.search.feature_names import Feature
from shardward.quarantine.search.features import measure
from shardward.quarantine.search.likeness import MOST_CULPRITS, learn
from shardward.quarantine.search.rows import index_chunk
from shardward.quarantine.search.scripts import CODE_PAGES, Group, script_table
from shardward.quarantine.search.spans import KEPT, MATCHES, lone_letter_spans, repeated_word_spans

RNG = random.Random(23)
RUSSIAN = (
    "Все счастливые семьи похожи друг на друга, каждая несчастливая семья несчастлива "
    "по-своему. Всё смешалось в доме Облонских. Жена узнала, что муж был в связи с бывшею "
    "в их доме француженкою-гувернанткой, и объявила мужу, что не может жить с ним. "
)
FRENCH = (
    "Longtemps, je me suis couché de bonne heure. Parfois, à peine ma bougie éteinte, mes yeux "
    "se fermaient si vite que je n’avais pas le temps de me dire : « Je m’endors. » Et, une "
    "demi-heure après, la pensée qu’il était temps de chercher le sommeil m’éveillait. "
)
UKRAINIAN = (
    "Реве та стогне Дніпр широкий, сердитий вітер завива, додолу верби гне високі, горами хвилю "
    "підійма. І блідий місяць на ту пору із хмари де-де виглядав, неначе човен в синім морі, то "
    "виринав, то потопав. Її діти їдять їжу; «як же їм жити»… "
)
CZECH = (
    "Příliš žluťoučký kůň úpěl ďábelské ódy. Byl pozdní večer, první máj, večerní máj, byl lásky "
    "čas. Hrdliččin zval ku lásce hlas, kde borový zaváněl háj. O lásce šeptal tichý mech. "
)
VIETNAMESE = (
    "Trăm năm trong cõi người ta, chữ tài chữ mệnh khéo là ghét nhau. Trải qua một cuộc bể dâu, "
    "những điều trông thấy mà đau đớn lòng. Lạ gì bỉ sắc tư phong, trời xanh quen thói má hồng. "
)
LOOPS = {
    "Chinese": "今天天气很好，我们一起去公园散步。",
    "Japanese": "今日は天気がいいので、公園を散歩しました。",
    "Thai": "วันนี้อากาศดีเราไปเดินเล่นในสวนสาธารณะ",
    "Khmer": "ថ្ងៃនេះអាកាសធាតុល្អយើងទៅដើរលេងនៅសួន",
    "Lao": "ມື້ນີ້ອາກາດດີພວກເຮົາໄປຍ່າງຫຼິ້ນໃນສວນ",
    "Burmese": "ဒီနေ့ရာသီဥတုသာယာသောကြောင့်ပန်းခြံသို့သွားသည်",
    "without spaces": "supercalifragilistic,expialidocious",
}


def verdicts(text: str) -> set[str]:
    found = detect_documents(pa.array([text], pa.large_string()), [0])
    return {finding.detector for finding in found if finding.verdict}


@pytest.mark.parametrize("name", sorted(LOOPS))
@pytest.mark.parametrize("times", [12, 200])
def test_a_loop_without_spaces_is_flagged_whatever_its_script(name: str, times: int) -> None:
    assert verdicts(LOOPS[name] * times) & {"word-period", "repeated-5-grams", "long-words"}


@pytest.mark.parametrize("page", CODE_PAGES)
@pytest.mark.parametrize("text", [RUSSIAN, FRENCH, CZECH], ids=["Russian", "French", "Czech"])
def test_utf8_read_in_any_code_page_is_mojibake(page: str, text: str) -> None:
    assert "mojibake" in verdicts(text.encode().decode(page, "ignore"))


@pytest.mark.parametrize(
    "pages", ["koi8-r cp1251", "cp1251 koi8-r", "cp1251 cp866", "cp866 cp1251"]
)
def test_cyrillic_of_another_old_code_page_is_unlikely(pages: str) -> None:
    written, read = pages.split()

    assert "unlikely-characters" in verdicts(RUSSIAN.encode(written).decode(read, "ignore"))


DAMAGED = {
    "invisible-characters": "\u200b".join(prose(RNG, 60)),
    "invisible-characters zalgo": "".join(
        c + "".join(RNG.choices([chr(m) for m in range(0x300, 0x340)], k=4)) for c in prose(RNG, 60)
    ),
    "rare-letter-pairs": " ".join(
        "".join(RNG.choices("abcdefghijklmnopqrstuvwxyz", k=RNG.randrange(2, 10)))
        for _ in range(120)
    ),
    "stutter": " ".join(word for word in prose(RNG, 60).split() for _ in range(2)),
    "lost-letters": FRENCH.encode("ascii", "replace").decode() * 2,
    "lost-letters of all": RUSSIAN.encode("ascii", "replace").decode(),
    "binary": "".join(c + "\0" if i % 300 == 7 else c for i, c in enumerate(prose(RNG, 300))),
    "digits-in-words": prose(RNG, 90).translate(str.maketrans("olesb", "01356")),
    "no-spaces": "".join(
        f"function {a}({b}){{return {a}.{b}[{i}]==={b}&&{a}}};"
        for i, (a, b) in enumerate(
            zip(RNG.choices(WORDS, k=60), RNG.choices(WORDS, k=60), strict=True)
        )
    ).replace(" ", "")
    * 2,
    "unlikely-characters": "".join(map(chr, RNG.choices(range(0x80, 0xD800), k=600))),
    "no-spaces but a few in a style sheet": "".join(
        f".{word}-{i}{{margin:0 {i}px;color:#{i:06x};font:{i}px/1.5 sans-serif}}"
        for i, word in enumerate(RNG.choices(WORDS, k=60))
    ),
    "mojibake in few words": prose(RNG, 100) + " f\u00c3\u00bcr" * 4 + prose(RNG, 60),
    "spaced-letters": " ".join(FRENCH),
    "spaced-letters of words apart": "  ".join(" ".join(word) for word in CZECH.split()),
    "spaced-letters in lines": "\n".join(RUSSIAN),
}


@pytest.mark.parametrize("name", sorted(DAMAGED))
def test_each_kind_of_damage_is_flagged_by_its_detector(name: str) -> None:
    assert name.split(maxsplit=1)[0] in verdicts(DAMAGED[name])


def new_words(count: int) -> str:
    return " ".join(RNG.choice(WORDS) + RNG.choice(WORDS) for _ in range(count))


CLEAN = {
    "sizes of paper": "\n".join(
        f"{a}{n}{more}"
        for a in "ABCDEF"
        for n in range(9)
        for more in ("", f"x{n % 5 + 1}", " Extra", " Quer")
    ),
    "a page about mojibake": f"{prose(RNG, 40)} f\u00c3\u00bcr {prose(RNG, 2)}",
    "Ukrainian": UKRAINIAN * 2,
    "Russian": RUSSIAN,
    "Czech": CZECH * 2,
    "Vietnamese": VIETNAMESE,
    "decomposed Vietnamese": unicodedata.normalize("NFD", VIETNAMESE),
    "all scripts": "\n".join(SCRIPTS),
    "bibliography": "\n".join(
        f"[{i}] {prose(RNG, 2).title()}, A. (19{i + 10}). {prose(RNG, 7)}, {i}({i % 4}), 1-{i + 9}."
        for i in range(40)
    ),
    "recipe": "\n".join(f"{RNG.randrange(900)} g {prose(RNG, 3)}" for _ in range(30)),
    "markdown table": "\n".join(
        f"| {prose(RNG, 2)} | {RNG.randrange(99)} | {prose(RNG, 4)} |" for _ in range(40)
    ),
    "chess": " ".join(
        f"{i}. N{RNG.choice('abcdef')}{RNG.randrange(1, 9)} {RNG.choice('abcdef')}4"
        for i in range(1, 60)
    ),
    "log": "\n".join(
        f"2026-11-29 12:{i:02d}:09 INFO [{RNG.choice(WORDS)}] {new_words(6)}" for i in range(50)
    ),
    "questions": " ".join(f"{prose(RNG, 12)}?" for _ in range(30)),
    "enumeration in source code": "\n".join(
        f"#define XA_{a.upper()}_NAME ((Atom) {i})" for i, a in enumerate(WORDS)
    ),
    "enumerated names": "\n".join(f"x{i} = f{i}(y{i})" for i in range(60)),
    "long names of macros": "\n".join(
        f"#define {a}_LK_{b}_new(x) {a}_check_gN_{b}_T_type(x)"
        for a, b in zip(WORDS, reversed(WORDS), strict=True)
    ),
    "formulas": "\n".join(f"{a} + {b} = {b} - x ( {a} )" for a in "abcdef" for b in "pqrst"),
    "initials": ", ".join(
        f"{a}. {b}. {c.title()}" for a, b, c in zip("ABCD" * 9, "KLM" * 12, WORDS, strict=False)
    ),
    "notes": " ".join(random.Random(3).choices("cdefgab", k=300)),
    "a genetic sequence": " ".join(random.Random(3).choices("ACGT", k=300)),
}


@pytest.mark.parametrize("name", sorted(CLEAN))
def test_clean_text_is_not_flagged(name: str) -> None:
    assert verdicts(CLEAN[name]) == set()


def rows_of(count: int) -> str:
    return "\n".join(f"{RNG.gauss(0, 9):.3f}, {RNG.gauss(0, 9):.3f}" for _ in range(count))


TABLES = {
    "numbers": rows_of(40),
    "names that come again": "\n".join(
        f"{i:04X}       ; NSM # Mn   LETTER SIGN A..LETTER SIGN B" for i in range(99)
    ),
    "new names in capitals": "\n".join(f"{i:04X};{prose(RNG, 4).upper()}" for i in range(99)),
    "columns": "\n".join(f"1F{i:02X} FE0F 1F{i:02X}    ; {new_words(1)}" for i in range(99)),
    "pictures": "\n".join(f"E{i}.0 [1] (\U0001f468\u200d\u2764\ufe0f) of {i}" for i in range(99)),
    "empty lines between": "\n\n\n".join(f"{i:04X}..{i:04X} # Lu LETTER" for i in range(99)),
    "records that end in a semicolon": "\n".join(
        f"{i:04X};{new_words(3).upper()};Lo;0;L;;;;;N;;;;;" for i in range(60)
    ),
    "fields between semicolons": "\n".join(
        f"C {i} ; WX 7{i} ; N {new_words(1)[:9]} ; B 25 0 4{i} 7 ;" for i in range(60)
    ),
    "rules between": "\n".join(
        f"# {'=' * 40}\n\n{i:04X}..{i:04X} # LETTER A..LETTER B\n" for i in range(60)
    ),
    "one warning again": "\n".join(f"12:00:{i:02d} WARN it's (still) \\x" for i in range(60)),
    "a character set": "\n".join(
        f"<U{i + 65:04X}>     /x{i + 65:02x}         {new_words(1).upper()} LETTER"
        for i in range(60)
    ),
    "pairs of glyphs": "\n".join(
        f"KPX {first} {word.title()[:6]}dieresis -{i + 1000}"
        for first in "WXYZ"
        for i, word in enumerate(WORDS)
    ),
}


@pytest.mark.parametrize("name", sorted(TABLES))
def test_numbers_in_lines_of_one_pattern_are_a_table(name: str) -> None:
    assert "number-table" in verdicts(TABLES[name])


def test_a_table_that_prose_explains_is_none() -> None:
    lines = [f"{new_words(9)}." for _ in range(20)]

    assert "number-table" not in verdicts("\n".join([rows_of(90), *lines]))
    assert "number-table" in verdicts("\n".join([rows_of(2000), *lines]))


def test_a_page_is_flagged_for_its_pictures_where_they_are_most_of_it() -> None:
    def page(share: float) -> str:
        picture = base64.b64encode(RNG.randbytes(int(4500 * share))).decode()
        text = " ".join(f"{new_words(1)} {prose(RNG, 1)}" for _ in range(int(400 * (1 - share))))
        return (
            f'<p>{text[: int(6000 * (1 - share))]}</p><img src="data:image/png;base64,{picture}">'
        )

    assert verdicts(page(0.3)) == set()
    assert "encoded-words" in verdicts(page(0.9))


def test_figures_in_a_table_do_not_stutter() -> None:
    figures = "\n".join(" ".join(RNG.choices("0001", k=12)) for _ in range(40))

    assert "stutter" not in verdicts(figures)
    assert "stutter" in verdicts(figures.replace("0", "no").replace("1", "yes"))


def test_a_letter_that_stands_alone_is_evidence_in_a_row_only() -> None:
    text = f"I saw a b c. {' '.join('letters')}, a I"

    assert lone_letter_spans(text) == ()
    assert lone_letter_spans(f"x1 {' '.join('lettersapart')} xy") == ((3, 26),)


def test_digits_of_words_like_base64_are_not_those_of_a_poor_scan() -> None:
    names = "\n".join(f"{prose(RNG, 6)} {RNG.randbytes(16).hex()}" for _ in range(30))
    scan = " ".join(f"w0rd5 {prose(RNG, 1)}" for _ in range(90))

    assert "digits-in-words" not in verdicts(names)
    assert "digits-in-words" in verdicts(scan)


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet=st.sampled_from("ab\x00\x1f \n\u3000\u0085éж中😀xyzxyzq"), max_size=60))
def test_words_and_characters_are_those_that_python_sees(text: str) -> None:
    values = measure(chunk(text)).values[0]

    assert values[Feature.WORDS] == len(text.split())
    assert values[Feature.CHARACTERS] == len(text)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text("abcxyzж中", min_size=1, max_size=20), min_size=2, max_size=12))
def test_a_word_is_the_same_wherever_it_stands(words: list[str]) -> None:
    text = " ".join(words)
    doubled = measure(chunk(f"{text} {text} {text} {text}")).values[0]

    assert doubled[Feature.WORD_PERIOD_TIMES] >= 4
    assert doubled[Feature.WORD_PERIOD_SHARE] == 1.0


def test_frequent_ideographs_are_told_from_rare_ones() -> None:
    cells = script_table().cells
    groups = {c: Group(int(cells[ord(c)]) & 31) for c in "的國語鑫锟龘"}

    assert {groups[c] for c in "的國語"} == {Group.IDEOGRAPH}
    assert groups["龘"] == Group.RARE_IDEOGRAPH


def test_evidence_in_an_endless_loop_is_looked_for_in_its_first_words_only() -> None:
    spans = repeated_word_spans("ab " * 500_000)

    assert 1 <= len(spans) <= KEPT
    assert spans[-1][1] <= 3 * MATCHES


def test_thousands_of_culprits_are_compared_as_a_sample_of_them() -> None:
    rows = index_chunk(chunk(*(prose(RNG, 30) for _ in range(20)))).vectors
    many = np.tile(rows, (200, 1))
    likeness = learn(many, tuple(range(len(many))), rows, np.ones(20, bool))

    assert len(likeness.points) <= MOST_CULPRITS < len(many)
    assert set(likeness.docs) <= set(range(len(many)))
